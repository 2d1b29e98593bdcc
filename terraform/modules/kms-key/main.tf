# One customer-managed key. IAM decides who of this account may use it; services are let in by name and only on
# behalf of this account.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.region
}

data "aws_iam_policy_document" "key" {
  #checkov:skip=CKV_AWS_109:in a key's policy `*` is this key; without this statement nobody could administer it
  #checkov:skip=CKV_AWS_111:as above
  #checkov:skip=CKV_AWS_356:as above
  statement {
    sid       = "LetIamDecide"
    actions   = ["kms:*"]
    resources = ["*"]
    principals {
      type        = "AWS"
      identifiers = ["arn:${local.partition}:iam::${local.account}:root"]
    }
  }

  dynamic "statement" {
    for_each = length(var.services) > 0 ? [1] : []
    content {
      sid       = "Services"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey*"]
      resources = ["*"]
      principals {
        type        = "Service"
        identifiers = var.services
      }
      condition {
        test     = "StringEquals"
        variable = "aws:SourceAccount"
        values   = [local.account]
      }
    }
  }

  dynamic "statement" {
    for_each = var.encrypts_log_groups ? [1] : []
    content {
      sid       = "LogGroups"
      actions   = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"]
      resources = ["*"]
      principals {
        type        = "Service"
        identifiers = ["logs.${local.region}.amazonaws.com"]
      }
      condition {
        test     = "ArnLike"
        variable = "kms:EncryptionContext:aws:logs:arn"
        values   = ["arn:${local.partition}:logs:${local.region}:${local.account}:log-group:*"]
      }
    }
  }

  dynamic "statement" {
    for_each = var.encrypts_trails ? [1] : []
    content {
      sid       = "Trails"
      actions   = ["kms:GenerateDataKey*", "kms:DescribeKey"]
      resources = ["*"]
      principals {
        type        = "Service"
        identifiers = ["cloudtrail.amazonaws.com"]
      }
      condition {
        test     = "StringLike"
        variable = "aws:SourceArn"
        values   = ["arn:${local.partition}:cloudtrail:*:${local.account}:trail/*"]
      }
    }
  }
}

resource "aws_kms_key" "this" {
  description             = var.description
  enable_key_rotation     = true
  deletion_window_in_days = 30
  policy                  = data.aws_iam_policy_document.key.json
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.this.key_id
}
