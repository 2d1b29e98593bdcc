# 10,000 requests a day and more: EKS, where KubeRay runs the chart in k8s/chart and Karpenter makes GPU machines.

module "network" {
  source         = "../../modules/network"
  name           = var.name
  region         = var.region
  cidr           = var.cidr
  zones          = var.zones
  public_subnets = var.public_subnets
  kms_key_arn    = module.logs_key.arn
  interface_endpoints = setunion(var.further_endpoints, [
    "ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "elasticloadbalancing", "logs", "secretsmanager", "sns", "sqs",
    "ssm", "sts",
  ])
  # How Karpenter and the load balancer controller find them.
  private_subnet_tags = { "karpenter.sh/discovery" = var.name, "kubernetes.io/role/internal-elb" = "1" }
  public_subnet_tags  = { "kubernetes.io/role/elb" = "1" }
}

module "cluster" {
  source             = "../../modules/eks"
  name               = var.name
  kubernetes_version = var.kubernetes_version
  subnet_ids         = module.network.private_subnet_ids
  api_clients        = var.api_clients
  admin_role_arns    = var.admin_role_arns
  kms_key_arn        = module.cluster_key.arn
  logs_key_arn       = module.logs_key.arn
  system_nodes       = var.system_nodes
  tags               = local.tags
}

# Karpenter puts machines into the groups with this tag.
resource "aws_ec2_tag" "discovery" {
  resource_id = module.cluster.security_group_id
  key         = "karpenter.sh/discovery"
  value       = var.name
}

module "log_groups" {
  source      = "../../modules/log-groups"
  name        = var.name
  kms_key_arn = module.logs_key.arn
}

module "logs_bucket" {
  source = "../../modules/logs-bucket"
  name   = "${var.name}-logs"
}

module "models" {
  source      = "../../modules/models-bucket"
  name        = "${var.name}-models"
  kms_key_arn = module.data_key.arn
  logs_bucket = module.logs_bucket.name
}

module "registry" {
  source       = "../../modules/registry"
  repositories = [for image in setunion(["server"], var.mirrored_images) : "${var.name}/${image}"]
  kms_key_arn  = module.data_key.arn
}
