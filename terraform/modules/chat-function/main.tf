# The handler in deploy/lambda. Its wrapper takes the place of Lambda's own Python client, which cannot stream.

resource "aws_lambda_function" "this" {
  #checkov:skip=CKV_AWS_117:it calls DynamoDB, Bedrock and Secrets Manager by TLS and IAM; a VPC's endpoints would cost more than the rest
  #checkov:skip=CKV_AWS_116:it is only called synchronously: a failed request is answered, not queued
  #checkov:skip=CKV_AWS_272:the package is built by this configuration from the checked-out tree; there is no third party to verify
  function_name                  = var.name
  description                    = "OpenAI-compatible chat completions by Bedrock"
  filename                       = var.package.path
  source_code_hash               = var.package.sha256
  role                           = aws_iam_role.this.arn
  runtime                        = "python3.13"
  architectures                  = ["arm64"]
  handler                        = "runtime.main" # Lambda wants one; the wrapper starts it
  memory_size                    = 512
  timeout                        = var.timeout_s
  reserved_concurrent_executions = var.concurrency
  kms_key_arn                    = var.kms_key_arn

  environment {
    variables = {
      AWS_LAMBDA_EXEC_WRAPPER   = "/var/task/bootstrap"
      CANOPY_MODEL_ID           = var.model_id
      CANOPY_CACHE_TABLE        = var.cache_table.name
      CANOPY_CACHE_TTL_S        = tostring(var.cache_ttl_s)
      CANOPY_API_KEYS_SECRET    = module.api_keys.arn
      CANOPY_MAX_PROMPT_TOKENS  = tostring(var.max_prompt_tokens)
      CANOPY_FORBIDDEN_PATTERNS = jsonencode(var.forbidden_patterns)
      CANOPY_ALLOWED_ORIGINS    = jsonencode(var.allowed_origins)
    }
  }

  logging_config {
    log_format = "JSON"
    log_group  = var.log_group.name
  }

  tracing_config {
    mode = "Active"
  }
}

module "api_keys" {
  source      = "../secret"
  name        = "${var.name}/api-keys"
  description = "Bearer keys of the API, one per line"
  kms_key_arn = var.kms_key_arn
}
