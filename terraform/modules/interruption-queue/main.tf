# What EC2 says about machines that are going. A message goes to one reader only, so each reader has a queue.

data "aws_caller_identity" "current" {}

locals {
  events = {
    spot      = { source = "aws.ec2", type = "EC2 Spot Instance Interruption Warning" }
    rebalance = { source = "aws.ec2", type = "EC2 Instance Rebalance Recommendation" }
    state     = { source = "aws.ec2", type = "EC2 Instance State-change Notification" }
    health    = { source = "aws.health", type = "AWS Health Event" }
    capacity  = { source = "aws.ec2", type = "EC2 Capacity Reservation Instance Interruption Warning" }
  }
}

resource "aws_sqs_queue" "this" {
  name                      = var.name
  message_retention_seconds = 300 # older news is no news: the notice is two minutes
  sqs_managed_sse_enabled   = true
}

data "aws_iam_policy_document" "queue" {
  statement {
    sid       = "Events"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.this.arn]
    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.current.account_id]
    }
  }
  statement {
    sid       = "TlsOnly"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.this.arn]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "this" {
  queue_url = aws_sqs_queue.this.url
  policy    = data.aws_iam_policy_document.queue.json
}

resource "aws_cloudwatch_event_rule" "this" {
  for_each      = local.events
  name          = "${var.name}-${each.key}"
  description   = each.value.type
  event_pattern = jsonencode({ source = [each.value.source], "detail-type" = [each.value.type] })
}

resource "aws_cloudwatch_event_target" "this" {
  for_each  = local.events
  rule      = aws_cloudwatch_event_rule.this[each.key].name
  target_id = "queue"
  arn       = aws_sqs_queue.this.arn
}
