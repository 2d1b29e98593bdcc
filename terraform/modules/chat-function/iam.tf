data "aws_partition" "current" {}

locals {
  bedrock = "arn:${data.aws_partition.current.partition}:bedrock"
  # An inference profile (REGION.PROVIDER.MODEL) forwards to the model in regions that it chooses.
  is_profile = can(regex("^(us|us-gov|eu|apac|au|jp|ca|global)\\.", var.model_id))
  model_arns = local.is_profile ? [
    "${local.bedrock}:${var.region}:${var.account_id}:inference-profile/${var.model_id}",
    "${local.bedrock}:*::foundation-model/${replace(var.model_id, "/^[a-z-]+\\./", "")}",
  ] : ["${local.bedrock}:${var.region}::foundation-model/${var.model_id}"]
}

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["lambda.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "this" {
  name               = var.name
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

# One document per idea, so that the first can be checked when it is planned.
data "aws_iam_policy_document" "model" {
  statement {
    sid       = "Answer"
    actions   = ["bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"]
    resources = local.model_arns
  }
}

data "aws_iam_policy_document" "work" {
  #checkov:skip=CKV_AWS_111:X-Ray has no resources to name
  #checkov:skip=CKV_AWS_356:as above
  statement {
    sid       = "Cache"
    actions   = ["dynamodb:Query", "dynamodb:PutItem"]
    resources = [var.cache_table.arn]
  }
  statement {
    sid       = "Keys"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [module.api_keys.arn]
  }
  statement {
    sid       = "Decrypt"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [var.kms_key_arn]
  }
  statement {
    sid       = "Log"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${var.log_group.arn}:*"]
  }
  statement {
    sid       = "Trace"
    actions   = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
    resources = ["*"] # X-Ray has no resources to name
  }
}

resource "aws_iam_role_policy" "model" {
  name   = "model"
  role   = aws_iam_role.this.id
  policy = data.aws_iam_policy_document.model.json
}

resource "aws_iam_role_policy" "work" {
  name   = "work"
  role   = aws_iam_role.this.id
  policy = data.aws_iam_policy_document.work.json
}
