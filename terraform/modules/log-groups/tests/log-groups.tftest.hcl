# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

run "a_week_and_a_quarter" {
  command = plan
  variables {
    name        = "canopy"
    kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
  }

  assert {
    condition     = aws_cloudwatch_log_group.detailed.retention_in_days == 7
    error_message = "lines about requests are kept for 7 days"
  }
  assert {
    condition     = aws_cloudwatch_log_group.aggregated.retention_in_days == 90
    error_message = "lines about minutes are kept for 90 days"
  }
  assert {
    condition     = aws_cloudwatch_log_group.detailed.kms_key_id == var.kms_key_arn && aws_cloudwatch_log_group.aggregated.kms_key_id == var.kms_key_arn
    error_message = "logs are not encrypted with the key"
  }
}
