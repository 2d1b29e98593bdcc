# One role per component, each with what that component does.

locals {
  cluster = { name = module.cluster.name, arn = module.cluster.arn }
}

module "load_balancer_controller" {
  source  = "../../modules/load-balancer-controller"
  cluster = local.cluster
}

data "aws_iam_policy_document" "read_models" {
  statement {
    sid       = "List"
    actions   = ["s3:ListBucket"]
    resources = [module.models.arn]
  }
  statement {
    sid       = "Read"
    actions   = ["s3:GetObject"]
    resources = ["${module.models.arn}/*"]
  }
  statement {
    sid       = "Decrypt"
    actions   = ["kms:Decrypt"]
    resources = [module.data_key.arn]
  }
}

# Verifiers read the model, drafters its head and what that borrows of the model; routers get what they need from a verifier.
module "reader" {
  source          = "../../modules/pod-identity"
  for_each        = toset(["verifier", "drafter"])
  name            = "${var.name}-${each.key}"
  cluster         = local.cluster
  namespace       = var.namespace
  service_account = "${var.release}-${each.key}"
  policies        = { models = data.aws_iam_policy_document.read_models.json }
}

data "aws_iam_policy_document" "read_secrets" {
  statement {
    sid       = "Read"
    actions   = ["secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"]
    resources = [module.api_keys.arn]
  }
  statement {
    sid       = "Decrypt"
    actions   = ["kms:Decrypt"]
    resources = [module.data_key.arn]
  }
}

module "external_secrets" {
  source          = "../../modules/pod-identity"
  name            = "${var.name}-external-secrets"
  cluster         = local.cluster
  namespace       = "external-secrets"
  service_account = "external-secrets"
  policies        = { secrets = data.aws_iam_policy_document.read_secrets.json }
}

data "aws_iam_policy_document" "write_logs" {
  statement {
    sid       = "Write"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]
    resources = ["${module.log_groups.detailed.arn}:*", "${module.log_groups.aggregated.arn}:*"]
  }
}

module "fluent_bit" {
  source          = "../../modules/pod-identity"
  name            = "${var.name}-fluent-bit"
  cluster         = local.cluster
  namespace       = var.monitoring.namespace
  service_account = var.monitoring.fluent_bit
  policies        = { logs = data.aws_iam_policy_document.write_logs.json }
}

data "aws_iam_policy_document" "publish_alarms" {
  statement {
    sid       = "Publish"
    actions   = ["sns:Publish"]
    resources = [module.alerts.topic_arn]
  }
  statement {
    sid       = "Encrypt"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [module.logs_key.arn]
  }
}

module "alertmanager" {
  source          = "../../modules/pod-identity"
  name            = "${var.name}-alertmanager"
  cluster         = local.cluster
  namespace       = var.monitoring.namespace
  service_account = var.monitoring.alertmanager
  policies        = { alarms = data.aws_iam_policy_document.publish_alarms.json }
}

data "aws_iam_policy_document" "read_notices" {
  statement {
    sid       = "Read"
    actions   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueUrl"]
    resources = [module.drain_notices.arn]
  }
}

module "drainer" {
  source          = "../../modules/pod-identity"
  name            = "${var.name}-drainer"
  cluster         = local.cluster
  namespace       = var.namespace
  service_account = "${var.release}-drainer"
  policies        = { notices = data.aws_iam_policy_document.read_notices.json }
}
