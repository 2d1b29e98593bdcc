# Alarms in the form that all of ours have: whole minutes, one topic, told also when they end.

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each            = var.alarms
  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  comparison_operator = each.value.above != null ? "GreaterThanThreshold" : "LessThanThreshold"
  threshold           = coalesce(each.value.above, each.value.below)
  evaluation_periods  = each.value.minutes
  datapoints_to_alarm = each.value.minutes
  treat_missing_data  = each.value.missing_is_bad ? "breaching" : "notBreaching"
  alarm_actions       = [var.topic_arn]
  ok_actions          = [var.topic_arn]

  dynamic "metric_query" {
    for_each = each.value.metrics
    content {
      id          = metric_query.key
      return_data = each.value.expression == null
      metric {
        namespace   = metric_query.value.namespace
        metric_name = metric_query.value.name
        dimensions  = metric_query.value.dimensions
        stat        = metric_query.value.stat
        period      = 60
      }
    }
  }

  dynamic "metric_query" {
    for_each = each.value.expression == null ? [] : [each.value.expression]
    content {
      id          = "watched"
      expression  = metric_query.value
      label       = each.key
      return_data = true
    }
  }
}
