# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

variables {
  name      = "canopy"
  topic_arn = "arn:aws:sns:eu-central-1:123456789012:canopy-alerts"
  alarms = {
    slow = {
      description = "slow", above = 1, minutes = 10, expression = "100 * slow / requests"
      metrics = {
        slow     = { namespace = "Canopy", name = "canopy:slow_requests", stat = "Sum", dimensions = { Service = "x" } }
        requests = { namespace = "Canopy", name = "canopy:finished_requests", stat = "Sum", dimensions = { Service = "x" } }
      }
    }
    gone = {
      description = "gone", below = 1, minutes = 2, missing_is_bad = true
      metrics     = { healthy = { namespace = "AWS/ApplicationELB", name = "HealthyHostCount", stat = "Minimum", dimensions = {} } }
    }
  }
}

run "both_forms" {
  command = plan
  assert {
    condition     = aws_cloudwatch_metric_alarm.this["slow"].comparison_operator == "GreaterThanThreshold" && aws_cloudwatch_metric_alarm.this["slow"].treat_missing_data == "notBreaching"
    error_message = "above is not above, or a quiet night is an alarm"
  }
  assert {
    condition     = [for q in aws_cloudwatch_metric_alarm.this["slow"].metric_query : q.id if q.return_data] == ["watched"]
    error_message = "the expression is what is watched"
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.this["gone"].comparison_operator == "LessThanThreshold" && aws_cloudwatch_metric_alarm.this["gone"].treat_missing_data == "breaching"
    error_message = "what is gone reports nothing: that is the alarm"
  }
  assert {
    condition     = alltrue([for a in aws_cloudwatch_metric_alarm.this : a.alarm_actions == toset([var.topic_arn]) && a.ok_actions == toset([var.topic_arn])])
    error_message = "nobody is told when an alarm begins or ends"
  }
}

run "two_thresholds" {
  command = plan
  variables {
    alarms = { x = { description = "x", above = 1, below = 2, minutes = 1, metrics = { m = { namespace = "N", name = "m", stat = "Sum", dimensions = {} } } } }
  }
  expect_failures = [var.alarms]
}

run "two_metrics_and_no_expression" {
  command = plan
  variables {
    alarms = { x = { description = "x", above = 1, minutes = 1, metrics = {
      m = { namespace = "N", name = "m", stat = "Sum", dimensions = {} }
      n = { namespace = "N", name = "n", stat = "Sum", dimensions = {} }
    } } }
  }
  expect_failures = [var.alarms]
}
