# Machines: made only with the cluster's tag on them, changed and ended only if they have it.
data "aws_iam_policy_document" "machines" {
  statement {
    sid       = "MakeFrom"
    actions   = ["ec2:RunInstances", "ec2:CreateFleet"]
    resources = ["${local.ec2}::image/*", "${local.ec2}::snapshot/*", "${local.ec2}:${var.account_id}:security-group/*", "${local.ec2}:${var.account_id}:subnet/*", "${local.ec2}:${var.account_id}:capacity-reservation/*"]
  }

  statement {
    sid       = "MakeFromOwnTemplates"
    actions   = ["ec2:RunInstances", "ec2:CreateFleet"]
    resources = ["${local.ec2}:${var.account_id}:launch-template/*"]
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/kubernetes.io/cluster/${var.cluster.name}"
      values   = ["owned"]
    }
  }

  statement {
    sid       = "MakeTagged"
    actions   = ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"]
    resources = local.made
    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/kubernetes.io/cluster/${var.cluster.name}"
      values   = ["owned"]
    }
  }

  statement {
    sid       = "TagWhatIsMade"
    actions   = ["ec2:CreateTags"]
    resources = local.made
    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/kubernetes.io/cluster/${var.cluster.name}"
      values   = ["owned"]
    }
    condition {
      test     = "StringEquals"
      variable = "ec2:CreateAction"
      values   = ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]
    }
  }

  statement {
    sid       = "NameOwn"
    actions   = ["ec2:CreateTags"]
    resources = ["${local.ec2}:${var.account_id}:instance/*"]
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/kubernetes.io/cluster/${var.cluster.name}"
      values   = ["owned"]
    }
    condition {
      test     = "ForAllValues:StringEquals"
      variable = "aws:TagKeys"
      values   = ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
    }
  }

  statement {
    sid       = "EndOwn"
    actions   = ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"]
    resources = ["${local.ec2}:${var.account_id}:instance/*", "${local.ec2}:${var.account_id}:launch-template/*"]
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/kubernetes.io/cluster/${var.cluster.name}"
      values   = ["owned"]
    }
  }
}

locals {
  made = [for kind in ["fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"] :
  "${local.ec2}:${var.account_id}:${kind}/*"]
}

data "aws_iam_policy_document" "rest" {
  #checkov:skip=CKV_AWS_356:describing and prices cannot be limited to resources; describing is limited to the region
  statement {
    sid = "LookAround"
    actions = [
      "ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceStatus",
      "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates",
      "ec2:DescribePlacementGroups", "ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
    ]
    resources = ["*"] # describing knows no resources
    condition {
      test     = "StringEquals"
      variable = "aws:RequestedRegion"
      values   = [var.region]
    }
  }

  statement {
    sid       = "FindImages"
    actions   = ["ssm:GetParameter"]
    resources = ["arn:${local.partition}:ssm:${var.region}::parameter/aws/service/*"]
  }

  statement {
    sid       = "Prices"
    actions   = ["pricing:GetProducts"]
    resources = ["*"] # the price list has no resources
  }

  statement {
    sid       = "Interruptions"
    actions   = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
    resources = [var.queue_arn]
  }

  statement {
    sid       = "GiveNodesTheirRole"
    actions   = ["iam:PassRole"]
    resources = [local.node_role]
    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ec2.amazonaws.com"]
    }
  }

  statement {
    sid       = "LookUpProfile"
    actions   = ["iam:GetInstanceProfile"]
    resources = [local.profile]
  }

  statement {
    sid       = "LookUpCluster"
    actions   = ["eks:DescribeCluster"]
    resources = [var.cluster.arn]
  }
}
