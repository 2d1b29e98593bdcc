# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

override_data {
  target = data.aws_caller_identity.current
  values = { account_id = "123456789012" }
}

variables {
  name        = "canopy-alerts"
  kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
}

run "encrypted_and_silent_by_default" {
  command = plan
  assert {
    condition     = aws_sns_topic.this.kms_master_key_id == var.kms_key_arn
    error_message = "alerts are not encrypted"
  }
  assert {
    condition     = length(aws_sns_topic_subscription.pagerduty) == 0 && length(aws_chatbot_slack_channel_configuration.this) == 0
    error_message = "nobody asked for PagerDuty or Slack"
  }
}

run "slack_and_pagerduty" {
  command = plan
  variables {
    emails        = ["ops@example.com"]
    pagerduty_url = "https://events.pagerduty.com/integration/0123456789abcdef/enqueue"
    slack         = { workspace_id = "T0123", channel_id = "C0123" }
  }
  assert {
    condition     = one(aws_sns_topic_subscription.pagerduty).protocol == "https" && one(aws_chatbot_slack_channel_configuration.this).slack_channel_id == "C0123"
    error_message = "an address is missing"
  }
  assert {
    condition     = alltrue([for a in one([for s in jsondecode(data.aws_iam_policy_document.chat[0].json).Statement : s.Action]) : can(regex("^cloudwatch:(Describe|Get)", a))])
    error_message = "somebody in the channel can do more than look"
  }
}

run "a_channel_by_name" {
  command = plan
  variables { slack = { workspace_id = "T0123", channel_id = "#alerts" } }
  expect_failures = [var.slack]
}

run "some_other_url" {
  command = plan
  variables { pagerduty_url = "https://example.com/hook" }
  expect_failures = [var.pagerduty_url]
}
