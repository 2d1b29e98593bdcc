# What Karpenter may do, and what the machines that it makes may do.

data "aws_partition" "current" {}

locals {
  partition = data.aws_partition.current.partition
  ec2       = "arn:${local.partition}:ec2:${var.region}"
  # Written out instead of taken from the role, so that the policy is known when a change is planned.
  node      = "${var.cluster.name}-karpenter-node"
  node_role = "arn:${local.partition}:iam::${var.account_id}:role/${local.node}"
  profile   = "arn:${local.partition}:iam::${var.account_id}:instance-profile/${local.node}"
}

module "controller" {
  source          = "../pod-identity"
  name            = "${var.cluster.name}-karpenter"
  cluster         = var.cluster
  namespace       = var.namespace
  service_account = var.service_account
  policies = {
    machines = data.aws_iam_policy_document.machines.json
    rest     = data.aws_iam_policy_document.rest.json
  }
}

data "aws_iam_policy_document" "node_trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "node" {
  name               = local.node
  assume_role_policy = data.aws_iam_policy_document.node_trust.json
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"])
  role       = aws_iam_role.node.name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.key}"
}

# Made here and named in the EC2NodeClass (`instanceProfile`): Karpenter cannot reach IAM from a VPC without internet.
resource "aws_iam_instance_profile" "node" {
  name = local.node
  role = aws_iam_role.node.name
}

resource "aws_eks_access_entry" "node" {
  cluster_name  = var.cluster.name
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"
}
