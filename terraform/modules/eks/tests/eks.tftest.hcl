# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

override_data {
  target = module.cni_role.data.aws_caller_identity.current
  values = { account_id = "123456789012" }
}

override_data {
  target = module.ebs_role.data.aws_caller_identity.current
  values = { account_id = "123456789012" }
}

variables {
  name               = "canopy"
  kubernetes_version = "1.33"
  subnet_ids         = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
  admin_role_arns    = ["arn:aws:iam::123456789012:role/platform"]
  kms_key_arn        = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
  logs_key_arn       = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
  tags               = { Project = "canopy" }
}

run "private_encrypted_and_logged" {
  command = plan
  assert {
    condition     = !aws_eks_cluster.this.vpc_config[0].endpoint_public_access && aws_eks_cluster.this.vpc_config[0].endpoint_private_access
    error_message = "the Kubernetes API is open to the internet by default"
  }
  assert {
    condition     = aws_eks_cluster.this.encryption_config[0].resources == toset(["secrets"]) && aws_eks_cluster.this.encryption_config[0].provider[0].key_arn == var.kms_key_arn
    error_message = "Secrets are not encrypted with the key"
  }
  assert {
    condition     = !aws_eks_cluster.this.access_config[0].bootstrap_cluster_creator_admin_permissions
    error_message = "whoever ran terraform administers the cluster for ever"
  }
  assert {
    condition     = aws_cloudwatch_log_group.control_plane.name == "/aws/eks/canopy/cluster" && aws_cloudwatch_log_group.control_plane.retention_in_days == 7
    error_message = "EKS would make the group itself, and keep everything for ever"
  }
  assert {
    condition     = jsondecode(aws_eks_addon.first["vpc-cni"].configuration_values).enableNetworkPolicy == "true"
    error_message = "the chart's NetworkPolicies would do nothing"
  }
  assert {
    condition     = aws_launch_template.system.metadata_options[0].http_tokens == "required" && aws_launch_template.system.block_device_mappings[0].ebs[0].encrypted == "true"
    error_message = "system nodes give their credentials away, or have plain disks"
  }
}

run "an_api_for_everyone" {
  command = plan
  variables { api_clients = ["0.0.0.0/0"] }
  expect_failures = [var.api_clients]
}

run "nobody_in_charge" {
  command = plan
  variables { admin_role_arns = [] }
  expect_failures = [var.admin_role_arns]
}

run "an_old_version" {
  command = plan
  variables { kubernetes_version = "1.29" }
  expect_failures = [var.kubernetes_version]
}
