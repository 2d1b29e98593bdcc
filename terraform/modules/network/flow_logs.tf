resource "aws_cloudwatch_log_group" "flow" {
  #checkov:skip=CKV_AWS_338:detailed logs are kept a week on purpose; what is kept for audits lies in S3 for 90 days
  name              = "/${var.name}/network/flow"
  retention_in_days = var.flow_log_days
  kms_key_id        = var.kms_key_arn
}

data "aws_iam_policy_document" "flow_trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["vpc-flow-logs.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "flow" {
  statement {
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]
    resources = ["${aws_cloudwatch_log_group.flow.arn}:*"]
  }
}

resource "aws_iam_role" "flow" {
  name               = "${var.name}-flow-logs"
  assume_role_policy = data.aws_iam_policy_document.flow_trust.json
}

resource "aws_iam_role_policy" "flow" {
  name   = "write"
  role   = aws_iam_role.flow.id
  policy = data.aws_iam_policy_document.flow.json
}

# Rejected packets are what an investigation asks for; accepted ones would cost more than the rest of the logs.
resource "aws_flow_log" "rejected" {
  vpc_id               = aws_vpc.this.id
  traffic_type         = "REJECT"
  log_destination_type = "cloud-watch-logs"
  log_destination      = aws_cloudwatch_log_group.flow.arn
  iam_role_arn         = aws_iam_role.flow.arn
}
