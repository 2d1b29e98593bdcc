environment        = "dev"
owner              = "search-team"
region             = "eu-central-1"
model_id           = "amazon.nova-micro-v1:0"
monthly_budget_usd = 20
alert_emails       = ["search-team@example.com"]
allowed_origins    = ["https://chat.example.com"]
forbidden_patterns = ["\\bproject\\s+x\\b"]
