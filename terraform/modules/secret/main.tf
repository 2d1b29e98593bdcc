# A secret with a random first value that is in no plan and no state. Later values are put by hand, and stay.

resource "aws_secretsmanager_secret" "this" {
  #checkov:skip=CKV2_AWS_57:replacing it by itself would lock its users out: docs/operations.md says how keys are replaced without a gap
  name                    = var.name
  description             = var.description
  kms_key_id              = var.kms_key_arn
  recovery_window_in_days = 7
}

ephemeral "random_password" "first" {
  length  = 48
  special = false # several keys are a list: one per line, or separated by commas
}

resource "aws_secretsmanager_secret_version" "first" {
  secret_id                = aws_secretsmanager_secret.this.id
  secret_string_wo         = ephemeral.random_password.first.result
  secret_string_wo_version = 1
}
