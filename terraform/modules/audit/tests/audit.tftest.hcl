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
  name             = "canopy"
  logs_bucket      = "canopy-logs-123456789012"
  kms_key_arn      = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
  data_bucket_arns = ["arn:aws:s3:::canopy-models-123456789012"]
}

run "encrypted_validated_and_complete" {
  command = plan
  assert {
    condition     = one(aws_cloudtrail.this).kms_key_id == var.kms_key_arn && one(aws_cloudtrail.this).enable_log_file_validation && one(aws_cloudtrail.this).is_multi_region_trail
    error_message = "the trail can be read, changed or got round"
  }
  assert {
    condition     = one(aws_accessanalyzer_analyzer.this).type == "ACCOUNT"
    error_message = "nobody looks for resources that are open to others"
  }
}

run "an_account_that_has_both" {
  command = plan
  variables {
    trail           = false
    access_analyzer = false
  }
  assert {
    condition     = length(aws_cloudtrail.this) == 0 && length(aws_accessanalyzer_analyzer.this) == 0
    error_message = "a second trail is charged for"
  }
}
