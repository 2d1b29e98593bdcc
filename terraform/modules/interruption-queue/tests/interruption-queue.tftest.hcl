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

run "all_news_encrypted_and_short_lived" {
  command = plan
  variables { name = "canopy-karpenter" }

  assert {
    condition     = aws_sqs_queue.this.sqs_managed_sse_enabled && aws_sqs_queue.this.message_retention_seconds == 300
    error_message = "messages are not encrypted, or outlive their machine"
  }
  assert {
    condition = toset([for r in aws_cloudwatch_event_rule.this : one(jsondecode(r.event_pattern)["detail-type"])]) == toset([
      "EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation",
      "EC2 Instance State-change Notification", "AWS Health Event",
      "EC2 Capacity Reservation Instance Interruption Warning",
    ])
    error_message = "some news does not arrive"
  }
}
