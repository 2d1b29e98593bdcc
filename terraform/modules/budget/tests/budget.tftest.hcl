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
  name        = "canopy"
  tag         = { key = "Project", value = "canopy" }
  monthly_usd = 50
  anomaly_usd = 5
  topic_arn   = "arn:aws:sns:eu-central-1:123456789012:canopy-alerts"
}

run "counts_what_is_ours_and_warns_before" {
  command = plan
  assert {
    condition     = one(aws_budgets_budget.monthly.cost_filter).values == tolist(["user:Project$canopy"])
    error_message = "the budget counts something else"
  }
  assert {
    condition     = toset([for n in aws_budgets_budget.monthly.notification : "${n.notification_type} ${n.threshold}"]) == toset(["ACTUAL 80", "FORECASTED 100"])
    error_message = "nobody is warned in time"
  }
  assert {
    condition     = jsondecode(aws_ce_anomaly_monitor.this.monitor_specification).Tags.Values == ["canopy"]
    error_message = "anomalies of something else"
  }
  assert {
    condition     = length(aws_ce_cost_allocation_tag.this) == 0
    error_message = "tags that AWS does not know yet cannot be activated"
  }
}

run "nothing_may_cost_nothing" {
  command = plan
  variables { monthly_usd = 0 }
  expect_failures = [var.monthly_usd]
}
