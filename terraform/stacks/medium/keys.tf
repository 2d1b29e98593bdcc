module "data_key" {
  source      = "../../modules/kms-key"
  name        = "${var.name}-data"
  description = "Models, images and secrets of ${var.name}"
}

module "logs_key" {
  source              = "../../modules/kms-key"
  name                = "${var.name}-logs"
  description         = "Logs, trail and alerts of ${var.name}"
  services            = ["cloudwatch.amazonaws.com", "budgets.amazonaws.com", "costalerts.amazonaws.com"]
  encrypts_log_groups = true
  encrypts_trails     = true
}

module "api_keys" {
  source      = "../../modules/secret"
  name        = "${var.name}/api-keys"
  description = "Bearer keys of the API, separated by commas"
  kms_key_arn = module.data_key.arn
}

module "ray_token" {
  source      = "../../modules/secret"
  name        = "${var.name}/ray-token"
  description = "What a process must know to join or command the Ray cluster"
  kms_key_arn = module.data_key.arn
}
