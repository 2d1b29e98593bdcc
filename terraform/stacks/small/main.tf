# Prototype, ~100 requests a day: API Gateway, a function, Bedrock, a cache. Nothing runs when nobody asks.

module "data_key" {
  source      = "../../modules/kms-key"
  name        = "${var.name}-data"
  description = "Cached answers, API keys and settings of ${var.name}"
}

module "logs_key" {
  source              = "../../modules/kms-key"
  name                = "${var.name}-logs"
  description         = "Logs, trail and alerts of ${var.name}"
  services            = ["cloudwatch.amazonaws.com", "budgets.amazonaws.com", "costalerts.amazonaws.com"]
  encrypts_log_groups = true
  encrypts_trails     = true
}

module "log_groups" {
  source      = "../../modules/log-groups"
  name        = var.name
  kms_key_arn = module.logs_key.arn
}

module "cache" {
  source      = "../../modules/response-cache"
  name        = "${var.name}-responses"
  kms_key_arn = module.data_key.arn
}

data "archive_file" "handler" {
  type             = "zip"
  source_dir       = "${path.module}/../../../deploy/lambda"
  excludes         = ["README.md", "__pycache__"]
  output_path      = "${path.module}/.terraform/handler.zip"
  output_file_mode = "0755" # the wrapper is a program
}

module "function" {
  source             = "../../modules/chat-function"
  name               = "${var.name}-chat"
  package            = { path = data.archive_file.handler.output_path, sha256 = data.archive_file.handler.output_base64sha256 }
  region             = var.region
  account_id         = local.account_id
  model_id           = var.model_id
  cache_table        = { name = module.cache.name, arn = module.cache.arn }
  cache_ttl_s        = var.cache_ttl_s
  forbidden_patterns = var.forbidden_patterns
  max_prompt_tokens  = var.max_prompt_tokens
  allowed_origins    = var.allowed_origins
  kms_key_arn        = module.data_key.arn
  log_group          = module.log_groups.detailed
  concurrency        = var.concurrency
  timeout_s          = var.timeout_s
}

module "api" {
  source               = "../../modules/rest-api"
  name                 = var.name
  function             = { name = module.function.name, stream_invoke_arn = module.function.stream_invoke_arn }
  timeout_s            = var.timeout_s
  allowed_origins      = var.allowed_origins
  throttle             = var.throttle
  log_group            = module.log_groups.aggregated
  account_logging_role = var.account_logging_role
}
