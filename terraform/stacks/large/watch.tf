module "alerts" {
  source        = "../../modules/alerts"
  name          = "${var.name}-alerts"
  kms_key_arn   = module.logs_key.arn
  emails        = var.alert_emails
  pagerduty_url = var.pagerduty_url
  slack         = var.slack
}

# The service's own figures are watched by the chart's PrometheusRule, whose Alertmanager publishes to the same topic.
# Here is what Prometheus cannot see because it would be affected itself, or does not scrape.
module "alarms" {
  source    = "../../modules/alarms"
  name      = var.name
  topic_arn = module.alerts.topic_arn
  alarms = {
    interruptions-unread = {
      description = "Karpenter does not read its queue: spot machines will be lost without being drained."
      above       = 60 # seconds of the two minutes
      minutes     = 3
      metrics = { age = {
        namespace  = "AWS/SQS", name = "ApproximateAgeOfOldestMessage", stat = "Maximum"
        dimensions = { QueueName = module.interruptions.name }
      } }
    }
    control-plane = {
      description = "The Kubernetes API answers with 5xx."
      above       = 20
      minutes     = 5
      metrics = { errors = {
        namespace  = "AWS/EKS", name = "apiserver_request_total_5XX", stat = "Sum"
        dimensions = { ClusterName = module.cluster.name }
      } }
    }
    unschedulable = {
      description = "Pods find no machine for 15 minutes: no capacity of the allowed types, or a quota."
      above       = 0
      minutes     = 15
      metrics = { pods = {
        namespace  = "AWS/EKS", name = "scheduler_pending_pods_UNSCHEDULABLE", stat = "Minimum"
        dimensions = { ClusterName = module.cluster.name }
      } }
    }
  }
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
