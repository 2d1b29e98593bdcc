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
  name               = "${var.name}-system-node"
  assume_role_policy = data.aws_iam_policy_document.node_trust.json
}

# Pods have roles of their own; a node joins and pulls images.
resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"])
  role       = aws_iam_role.node.name
  policy_arn = "${local.policies}/${each.key}"
}

resource "aws_launch_template" "system" {
  name                   = "${var.name}-system"
  update_default_version = true

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  monitoring {
    enabled = true
  }

  block_device_mappings {
    device_name = "/dev/xvda"
    ebs {
      volume_size           = 50
      volume_type           = "gp3"
      encrypted             = true
      delete_on_termination = true
    }
  }

  dynamic "tag_specifications" {
    for_each = ["instance", "volume", "network-interface"]
    content {
      resource_type = tag_specifications.value
      tags          = merge(var.tags, { Name = "${var.name}-system" })
    }
  }
}

# The only nodes that Karpenter does not make: it has to run somewhere itself.
resource "aws_eks_node_group" "system" {
  cluster_name    = aws_eks_cluster.this.name
  node_group_name = "system"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.subnet_ids
  ami_type        = "BOTTLEROCKET_x86_64"
  instance_types  = var.system_nodes.instance_types
  labels          = { "canopy-pool" = "system" }

  launch_template {
    name    = aws_launch_template.system.name
    version = aws_launch_template.system.latest_version
  }

  scaling_config {
    min_size     = var.system_nodes.min
    desired_size = var.system_nodes.min
    max_size     = var.system_nodes.max
  }

  update_config {
    max_unavailable = 1
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }

  depends_on = [aws_iam_role_policy_attachment.node, aws_eks_addon.first]
}
