environment        = "prod"
owner              = "search-team"
region             = "eu-central-1"
zones              = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
admin_role_arns    = ["arn:aws:iam::123456789012:role/platform"]
monthly_budget_usd = 3500
anomaly_usd        = 100
alert_emails       = ["search-team@example.com"]
slack              = { workspace_id = "T0123ABCD", channel_id = "C0123ABCD" }
