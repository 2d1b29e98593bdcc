# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

run "by_hash_and_time_with_an_end" {
  command = plan
  variables {
    name        = "canopy-responses"
    kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
  }

  assert {
    condition     = aws_dynamodb_table.this.hash_key == "request_hash" && aws_dynamodb_table.this.range_key == "created_at"
    error_message = "the handler looks for request_hash and created_at"
  }
  assert {
    condition     = aws_dynamodb_table.this.billing_mode == "PAY_PER_REQUEST"
    error_message = "an idle prototype must cost nothing"
  }
  assert {
    condition     = aws_dynamodb_table.this.ttl[0].enabled && aws_dynamodb_table.this.ttl[0].attribute_name == "expires_at"
    error_message = "answers do not expire"
  }
  assert {
    condition     = aws_dynamodb_table.this.server_side_encryption[0].kms_key_arn == var.kms_key_arn
    error_message = "the table is not encrypted with the key"
  }
}
