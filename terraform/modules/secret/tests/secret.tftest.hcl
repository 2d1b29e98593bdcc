# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

run "its_value_is_written_and_not_kept" {
  command = plan
  variables {
    name        = "canopy/api-keys"
    description = "keys"
    kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
  }

  assert {
    condition     = aws_secretsmanager_secret.this.kms_key_id == var.kms_key_arn
    error_message = "the secret is not encrypted with the key"
  }
  assert {
    condition     = aws_secretsmanager_secret_version.first.secret_string == null && aws_secretsmanager_secret_version.first.secret_string_wo_version == 1
    error_message = "the secret would be in the state"
  }
}
