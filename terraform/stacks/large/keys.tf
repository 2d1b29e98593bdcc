module "data_key" {
  source      = "../../modules/kms-key"
  name        = "${var.name}-data"
  description = "Models, images and secrets of ${var.name}"
}

# Apart from the data's: whoever may read models need not be able to read the cluster's Secrets.
module "cluster_key" {
  source      = "../../modules/kms-key"
  name        = "${var.name}-cluster"
  description = "Kubernetes Secrets of ${var.name}"
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
  description = "Bearer keys of the API, one per line"
  kms_key_arn = module.data_key.arn
}
