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

run "private_and_gone_after_90_days" {
  command = plan
  variables { name = "canopy-logs" }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this.rule[0].expiration[0].days == 90
    error_message = "logs are kept for 90 days"
  }
  assert {
    condition = alltrue([
      aws_s3_bucket_public_access_block.this.block_public_acls, aws_s3_bucket_public_access_block.this.block_public_policy,
      aws_s3_bucket_public_access_block.this.ignore_public_acls, aws_s3_bucket_public_access_block.this.restrict_public_buckets,
    ])
    error_message = "the bucket can be made public"
  }
  assert {
    condition     = one([for s in jsondecode(data.aws_iam_policy_document.this.json).Statement : s if s.Sid == "TlsOnly"]).Effect == "Deny"
    error_message = "plain HTTP is not refused"
  }
  assert {
    condition = alltrue([
      for s in jsondecode(data.aws_iam_policy_document.this.json).Statement :
      s.Condition.StringEquals["aws:SourceAccount"] == "123456789012" if s.Effect == "Allow"
    ])
    error_message = "a service may write here for other accounts, too"
  }
}
