# Where access logs (S3, load balancers) and trails end: private, TLS only, gone after 90 days.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}

locals {
  account = data.aws_caller_identity.current.account_id
  bucket  = "${var.name}-${local.account}"
  # Written out instead of taken from the bucket, so that the policy is known when a change is planned.
  arn = "arn:${data.aws_partition.current.partition}:s3:::${local.bucket}"
}

resource "aws_s3_bucket" "this" {
  #checkov:skip=CKV_AWS_145:load balancers and S3 deliver logs only to buckets encrypted with S3's own keys; trails bring their own key
  #checkov:skip=CKV_AWS_18:it is the bucket that access logs go to; its own would be delivered in a circle
  #checkov:skip=CKV_AWS_144:logs of one region are kept there; a second copy would double their cost
  #checkov:skip=CKV2_AWS_62:nothing reacts to single log files
  bucket = local.bucket
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket                  = aws_s3_bucket.this.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "this" {
  bucket = aws_s3_bucket.this.id
  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id
  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id
  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = aws_s3_bucket.this.id
  rule {
    id     = "expire"
    status = "Enabled"
    filter {}
    expiration {
      days = var.days
    }
    noncurrent_version_expiration {
      noncurrent_days = 1
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_s3_bucket_policy" "this" {
  bucket = aws_s3_bucket.this.id
  policy = data.aws_iam_policy_document.this.json
}
