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

run "encrypted_versioned_private_tiered" {
  command = plan
  variables {
    name        = "canopy-models"
    kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
    logs_bucket = "canopy-logs-123456789012"
  }

  assert {
    condition     = one(one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default).kms_master_key_id == var.kms_key_arn
    error_message = "objects are not encrypted with the key"
  }
  assert {
    condition     = aws_s3_bucket_versioning.this.versioning_configuration[0].status == "Enabled"
    error_message = "a model that was overwritten is lost"
  }
  assert {
    condition = alltrue([
      aws_s3_bucket_public_access_block.this.block_public_acls, aws_s3_bucket_public_access_block.this.block_public_policy,
      aws_s3_bucket_public_access_block.this.ignore_public_acls, aws_s3_bucket_public_access_block.this.restrict_public_buckets,
    ])
    error_message = "the bucket can be made public"
  }
  assert {
    condition     = one(aws_s3_bucket_lifecycle_configuration.this.rule[0].transition).storage_class == "INTELLIGENT_TIERING"
    error_message = "models that nobody loads stay in the dearest tier"
  }
  assert {
    condition     = alltrue([for s in jsondecode(data.aws_iam_policy_document.this.json).Statement : s.Effect == "Deny"])
    error_message = "the bucket's policy must only take away: access is given by roles"
  }
  assert {
    condition     = toset([for s in jsondecode(data.aws_iam_policy_document.this.json).Statement : s.Sid]) == toset(["TlsOnly", "NoOtherKey"])
    error_message = "plain HTTP or another key is not refused"
  }
  assert {
    # Without it, a negated test of a header that is not sent is true, and every ordinary upload would be refused.
    condition     = one([for s in jsondecode(data.aws_iam_policy_document.this.json).Statement : s if s.Sid == "NoOtherKey"]).Condition.Null["s3:x-amz-server-side-encryption-aws-kms-key-id"] == "false"
    error_message = "uploads that name no key are refused"
  }
  assert {
    condition     = aws_s3_bucket_logging.this.target_prefix == "s3/canopy-models-123456789012/"
    error_message = "access is not logged"
  }
}
