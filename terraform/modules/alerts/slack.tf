data "aws_iam_policy_document" "chat_trust" {
  count = var.slack == null ? 0 : 1
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["chatbot.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.current.account_id]
    }
  }
}

# What somebody in the channel can look at: alarms, and nothing else.
data "aws_iam_policy_document" "chat" {
  #checkov:skip=CKV_AWS_356:describing alarms and reading metrics cannot be limited to resources
  count = var.slack == null ? 0 : 1
  statement {
    actions   = ["cloudwatch:DescribeAlarms", "cloudwatch:GetMetricData"]
    resources = ["*"]
  }
}

resource "aws_iam_role" "chat" {
  count              = var.slack == null ? 0 : 1
  name               = "${var.name}-chat"
  assume_role_policy = data.aws_iam_policy_document.chat_trust[0].json
}

resource "aws_iam_policy" "chat" {
  count  = var.slack == null ? 0 : 1
  name   = "${var.name}-chat"
  policy = data.aws_iam_policy_document.chat[0].json
}

resource "aws_iam_role_policy_attachment" "chat" {
  count      = var.slack == null ? 0 : 1
  role       = aws_iam_role.chat[0].name
  policy_arn = aws_iam_policy.chat[0].arn
}

resource "aws_chatbot_slack_channel_configuration" "this" {
  count                 = var.slack == null ? 0 : 1
  configuration_name    = var.name
  iam_role_arn          = aws_iam_role.chat[0].arn
  slack_team_id         = var.slack.workspace_id
  slack_channel_id      = var.slack.channel_id
  sns_topic_arns        = [aws_sns_topic.this.arn]
  guardrail_policy_arns = [aws_iam_policy.chat[0].arn]
}
