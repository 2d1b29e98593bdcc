module "alerts" {
  source        = "../../modules/alerts"
  name          = "${var.name}-alerts"
  kms_key_arn   = module.logs_key.arn
  emails        = var.alert_emails
  pagerduty_url = var.pagerduty_url
  slack         = var.slack
}

locals {
  gateway  = { namespace = "AWS/ApiGateway", dimensions = module.api.dimensions }
  function = { namespace = "AWS/Lambda", dimensions = { FunctionName = module.function.name } }
}

# No queue, no drafts and no replicas here: throttled requests take the place of a queue, failed calls of the function
# that of a missing replica.
module "alarms" {
  source    = "../../modules/alarms"
  name      = var.name
  topic_arn = module.alerts.topic_arn
  alarms = {
    slow = {
      description = "p99 above 5 s for 10 minutes. Streamed answers count until their last token."
      above       = 5000 # ms
      minutes     = 10
      metrics     = { latency = merge(local.gateway, { name = "Latency", stat = "p99" }) }
    }
    errors = {
      description = "More than 5% of the requests end in a 5xx."
      above       = 5
      minutes     = 5
      expression  = "100 * errors / requests"
      metrics = {
        errors   = merge(local.gateway, { name = "5XXError", stat = "Sum" })
        requests = merge(local.gateway, { name = "Count", stat = "Sum" })
      }
    }
    throttled = {
      description = "Requests are turned away because too many are being answered: raise concurrency."
      above       = 0
      minutes     = 5
      metrics     = { throttles = merge(local.function, { name = "Throttles", stat = "Sum" }) }
    }
    broken = {
      description = "The function itself fails (no answer, out of memory, timed out)."
      above       = 0
      minutes     = 3
      metrics     = { errors = merge(local.function, { name = "Errors", stat = "Sum" }) }
    }
  }
}

module "logs_bucket" {
  source = "../../modules/logs-bucket"
  name   = "${var.name}-logs"
}

module "audit" {
  source          = "../../modules/audit"
  name            = var.name
  logs_bucket     = module.logs_bucket.name
  kms_key_arn     = module.logs_key.arn
  trail           = var.trail
  access_analyzer = var.access_analyzer
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
