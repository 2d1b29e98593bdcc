# What it may cost, and an alert when it costs what nobody expected.

resource "aws_ce_cost_allocation_tag" "this" {
  for_each = var.activate_tags
  tag_key  = each.key
  status   = "Active"
}

resource "aws_budgets_budget" "monthly" {
  name         = var.name
  budget_type  = "COST"
  limit_amount = tostring(var.monthly_usd)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"

  cost_filter {
    name   = "TagKeyValue"
    values = [format("user:%s$%s", var.tag.key, var.tag.value)]
  }

  notification {
    notification_type         = "ACTUAL"
    comparison_operator       = "GREATER_THAN"
    threshold                 = 80
    threshold_type            = "PERCENTAGE"
    subscriber_sns_topic_arns = [var.topic_arn]
  }

  notification {
    notification_type         = "FORECASTED"
    comparison_operator       = "GREATER_THAN"
    threshold                 = 100
    threshold_type            = "PERCENTAGE"
    subscriber_sns_topic_arns = [var.topic_arn]
  }
}

# By tag: an account has only one monitor by service, and a new account has it already.
resource "aws_ce_anomaly_monitor" "this" {
  name         = var.name
  monitor_type = "CUSTOM"
  monitor_specification = jsonencode({
    Tags = { Key = "user:${var.tag.key}", Values = [var.tag.value], MatchOptions = ["EQUALS"] }
  })
}

resource "aws_ce_anomaly_subscription" "this" {
  name             = var.name
  frequency        = "IMMEDIATE" # the only one that may go to a topic
  monitor_arn_list = [aws_ce_anomaly_monitor.this.arn]

  subscriber {
    type    = "SNS"
    address = var.topic_arn
  }

  threshold_expression {
    dimension {
      key           = "ANOMALY_TOTAL_IMPACT_ABSOLUTE"
      match_options = ["GREATER_THAN_OR_EQUAL"]
      values        = [tostring(var.anomaly_usd)]
    }
  }
}
