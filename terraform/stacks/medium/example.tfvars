environment        = "prod"
owner              = "search-team"
region             = "eu-central-1"
zones              = ["eu-central-1a", "eu-central-1b"]
client_cidrs       = ["10.0.0.0/8"]
certificate_arn    = "arn:aws:acm:eu-central-1:123456789012:certificate/11111111-2222-3333-4444-555555555555"
image_tag          = "0.1.0-cuda"
model_prefix       = "llama-3.1-8b-instruct"
head_prefix        = "llama-3.1-8b-eagle3"
servers            = { count = 1, on_demand = 1 }
settings           = { engine = { max_model_len = 8192 } }
monthly_budget_usd = 1200
alert_emails       = ["search-team@example.com"]
slack              = { workspace_id = "T0123ABCD", channel_id = "C0123ABCD" }
