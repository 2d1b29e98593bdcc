data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }
  }
}

# What ECS does for the task before it runs.
data "aws_iam_policy_document" "execution" {
  #checkov:skip=CKV_AWS_356:a registry token is not for a repository; what it can pull is limited below
  statement {
    sid       = "SignIn"
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"] # the action knows no resources
  }
  statement {
    sid       = "Pull"
    actions   = ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"]
    resources = [var.image_repository_arn]
  }
  statement {
    sid       = "Log"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = [for group in var.log_groups : "${group.arn}:*"]
  }
  dynamic "statement" {
    for_each = length(var.secrets) > 0 ? [1] : []
    content {
      sid       = "Secrets"
      actions   = ["secretsmanager:GetSecretValue"]
      resources = values(var.secrets)
    }
  }
  dynamic "statement" {
    for_each = length(var.secrets) > 0 ? [1] : []
    content {
      sid       = "Decrypt"
      actions   = ["kms:Decrypt"]
      resources = [var.kms_key_arn]
    }
  }
}

resource "aws_iam_role" "execution" {
  name               = "${var.name}-execution"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy" "execution" {
  name   = "start"
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.execution.json
}

resource "aws_iam_role" "task" {
  name               = "${var.name}-task"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy" "task" {
  for_each = var.task_policies
  name     = each.key
  role     = aws_iam_role.task.id
  policy   = each.value
}
