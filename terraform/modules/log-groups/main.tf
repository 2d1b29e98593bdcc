# Lines about single requests are many and soon uninteresting; lines about minutes (metrics, access without content)
# are few and compared over months.

resource "aws_cloudwatch_log_group" "detailed" {
  #checkov:skip=CKV_AWS_338:a week is what looking into an incident needs; see the other group for more
  name              = "/${var.name}/detailed"
  retention_in_days = var.detailed_days
  kms_key_id        = var.kms_key_arn
}

resource "aws_cloudwatch_log_group" "aggregated" {
  #checkov:skip=CKV_AWS_338:90 days are a quarter to compare with; the metrics themselves are kept for 15 months
  name              = "/${var.name}/aggregated"
  retention_in_days = var.aggregated_days
  kms_key_id        = var.kms_key_arn
}
