# AWS's own add-ons; their images come from AWS's registry in the region, through the VPC's endpoints.

locals {
  # Needed for a node to become ready, so they come before nodes.
  first_addons = {
    eks-pod-identity-agent = {}
    kube-proxy             = {}
    vpc-cni                = { enableNetworkPolicy = "true" } # the chart's NetworkPolicies are nothing without
  }
  addons = {
    coredns            = {}
    metrics-server     = {}
    aws-ebs-csi-driver = {}
  }
}

module "cni_role" {
  source          = "../pod-identity"
  name            = "${var.name}-vpc-cni"
  cluster         = { name = aws_eks_cluster.this.name, arn = aws_eks_cluster.this.arn }
  namespace       = "kube-system"
  service_account = "aws-node"
  managed         = ["${local.policies}/AmazonEKS_CNI_Policy"]
}

module "ebs_role" {
  source          = "../pod-identity"
  name            = "${var.name}-ebs-csi"
  cluster         = { name = aws_eks_cluster.this.name, arn = aws_eks_cluster.this.arn }
  namespace       = "kube-system"
  service_account = "ebs-csi-controller-sa"
  managed         = ["${local.policies}/service-role/AmazonEBSCSIDriverPolicy"]
}

resource "aws_eks_addon" "first" {
  for_each                    = local.first_addons
  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  configuration_values        = length(each.value) > 0 ? jsonencode(each.value) : null
  resolve_conflicts_on_update = "OVERWRITE"
  depends_on                  = [module.cni_role]
}

resource "aws_eks_addon" "this" {
  for_each                    = local.addons
  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  configuration_values        = length(each.value) > 0 ? jsonencode(each.value) : null
  resolve_conflicts_on_update = "OVERWRITE"
  depends_on                  = [aws_eks_node_group.system, module.ebs_role]
}
