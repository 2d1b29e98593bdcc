module "alerts" {
  source        = "../../modules/alerts"
  name          = "${var.name}-alerts"
  kms_key_arn   = module.logs_key.arn
  emails        = var.alert_emails
  pagerduty_url = var.pagerduty_url
  slack         = var.slack
}

module "audit" {
  source           = "../../modules/audit"
  name             = var.name
  logs_bucket      = module.logs_bucket.name
  kms_key_arn      = module.logs_key.arn
  data_bucket_arns = [module.models.arn]
  trail            = var.trail
  access_analyzer  = var.access_analyzer
}

module "budget" {
  source        = "../../modules/budget"
  name          = var.name
  tag           = { key = "Project", value = var.name }
  monthly_usd   = var.monthly_budget_usd
  anomaly_usd   = var.anomaly_usd
  topic_arn     = module.alerts.topic_arn
  activate_tags = var.activate_cost_tags ? keys(local.tags) : []
}
