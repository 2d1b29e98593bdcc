# What the AWS Load Balancer Controller may do: make load balancers with the cluster's tag on them, and change and end
# those. Web ACLs, Shield and Cognito are left out: the chart's Ingress uses none of them.

locals {
  tag = "elbv2.k8s.aws/cluster"
}

module "controller" {
  source          = "../pod-identity"
  name            = "${var.cluster.name}-load-balancer-controller"
  cluster         = var.cluster
  namespace       = var.namespace
  service_account = var.service_account
  policies        = { balance = data.aws_iam_policy_document.balance.json }
}

data "aws_iam_policy_document" "balance" {
  #checkov:skip=CKV_AWS_356:describing knows no resources, and what is made has no name before; conditions demand the cluster's tag
  #checkov:skip=CKV_AWS_111:as above
  #checkov:skip=CKV_AWS_109:as above
  statement {
    sid = "LookAround"
    actions = [
      "acm:DescribeCertificate", "acm:ListCertificates",
      "ec2:DescribeAccountAttributes", "ec2:DescribeAvailabilityZones", "ec2:DescribeInstances",
      "ec2:DescribeInternetGateways", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups",
      "ec2:DescribeSubnets", "ec2:DescribeTags", "ec2:DescribeVpcs", "ec2:GetSecurityGroupsForVpc",
      "elasticloadbalancing:DescribeListenerAttributes", "elasticloadbalancing:DescribeListenerCertificates",
      "elasticloadbalancing:DescribeListeners", "elasticloadbalancing:DescribeLoadBalancerAttributes",
      "elasticloadbalancing:DescribeLoadBalancers", "elasticloadbalancing:DescribeRules",
      "elasticloadbalancing:DescribeSSLPolicies", "elasticloadbalancing:DescribeTags",
      "elasticloadbalancing:DescribeTargetGroupAttributes", "elasticloadbalancing:DescribeTargetGroups",
      "elasticloadbalancing:DescribeTargetHealth", "elasticloadbalancing:DescribeTrustStores",
    ]
    resources = ["*"] # describing knows no resources
  }

  statement {
    sid = "MakeTagged"
    actions = [
      "ec2:CreateSecurityGroup", "elasticloadbalancing:CreateLoadBalancer", "elasticloadbalancing:CreateTargetGroup",
      "elasticloadbalancing:CreateListener", "elasticloadbalancing:CreateRule",
    ]
    resources = ["*"] # they have no name before they are made
    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/${local.tag}"
      values   = [var.cluster.name]
    }
  }

  statement {
    sid       = "MakeGroupsInVpcs"
    actions   = ["ec2:CreateSecurityGroup"]
    resources = ["arn:*:ec2:*:*:vpc/*"] # the VPC that a new group is in carries no tag of the controller's
  }

  statement {
    sid       = "TagWhatIsMade"
    actions   = ["ec2:CreateTags", "elasticloadbalancing:AddTags"]
    resources = ["arn:*:ec2:*:*:security-group/*", "arn:*:elasticloadbalancing:*:*:*"]
    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/${local.tag}"
      values   = [var.cluster.name]
    }
  }

  statement {
    sid = "ChangeAndEndOwn"
    actions = [
      "ec2:AuthorizeSecurityGroupIngress", "ec2:CreateTags", "ec2:DeleteSecurityGroup", "ec2:DeleteTags",
      "ec2:RevokeSecurityGroupIngress",
      "elasticloadbalancing:AddListenerCertificates", "elasticloadbalancing:AddTags",
      "elasticloadbalancing:DeleteListener", "elasticloadbalancing:DeleteLoadBalancer",
      "elasticloadbalancing:DeleteRule", "elasticloadbalancing:DeleteTargetGroup",
      "elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:ModifyListener",
      "elasticloadbalancing:ModifyListenerAttributes", "elasticloadbalancing:ModifyLoadBalancerAttributes",
      "elasticloadbalancing:ModifyRule", "elasticloadbalancing:ModifyTargetGroup",
      "elasticloadbalancing:ModifyTargetGroupAttributes", "elasticloadbalancing:RegisterTargets",
      "elasticloadbalancing:RemoveListenerCertificates", "elasticloadbalancing:RemoveTags",
      "elasticloadbalancing:SetIpAddressType", "elasticloadbalancing:SetRulePriorities",
      "elasticloadbalancing:SetSecurityGroups", "elasticloadbalancing:SetSubnets",
    ]
    resources = ["*"] # those with the cluster's tag
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/${local.tag}"
      values   = [var.cluster.name]
    }
  }

  # Pods are reached through the cluster's own group, which is tagged as EKS tags it.
  statement {
    sid       = "OpenNodesToOwn"
    actions   = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"]
    resources = ["arn:*:ec2:*:*:security-group/*"]
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/aws:eks:cluster-name"
      values   = [var.cluster.name]
    }
  }

  statement {
    sid       = "FirstLoadBalancerOfAnAccount"
    actions   = ["iam:CreateServiceLinkedRole"]
    resources = ["arn:*:iam::*:role/aws-service-role/elasticloadbalancing.amazonaws.com/*"]
    condition {
      test     = "StringEquals"
      variable = "iam:AWSServiceName"
      values   = ["elasticloadbalancing.amazonaws.com"]
    }
  }
}
