# One topic that alarms, budgets and cost anomalies publish to, and whom it tells.

data "aws_caller_identity" "current" {}

resource "aws_sns_topic" "this" {
  name              = var.name
  kms_master_key_id = var.kms_key_arn
}

data "aws_iam_policy_document" "topic" {
  statement {
    sid       = "Publishers"
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.this.arn]
    principals {
      type        = "Service"
      identifiers = ["cloudwatch.amazonaws.com", "budgets.amazonaws.com", "costalerts.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.current.account_id]
    }
  }
}

resource "aws_sns_topic_policy" "this" {
  arn    = aws_sns_topic.this.arn
  policy = data.aws_iam_policy_document.topic.json
}

resource "aws_sns_topic_subscription" "email" {
  for_each  = var.emails
  topic_arn = aws_sns_topic.this.arn
  protocol  = "email"
  endpoint  = each.key
}

resource "aws_sns_topic_subscription" "pagerduty" {
  count                  = var.pagerduty_url == null ? 0 : 1
  topic_arn              = aws_sns_topic.this.arn
  protocol               = "https"
  endpoint               = var.pagerduty_url
  endpoint_auto_confirms = true
}
