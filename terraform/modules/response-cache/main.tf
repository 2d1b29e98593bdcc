# Answers to deterministic requests, by the request's hash. The newest of a hash counts; DynamoDB drops the expired.

resource "aws_dynamodb_table" "this" {
  #checkov:skip=CKV_AWS_28:a cache is filled again by use; backups would cost more than what they save
  name         = var.name
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "request_hash"
  range_key    = "created_at"

  attribute {
    name = "request_hash"
    type = "S"
  }

  attribute {
    name = "created_at"
    type = "N"
  }

  ttl {
    attribute_name = "expires_at"
    enabled        = true
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = var.kms_key_arn
  }
}
