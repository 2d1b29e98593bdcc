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
  target = module.controller.data.aws_caller_identity.current
  values = { account_id = "123456789012" }
}

variables {
  cluster    = { name = "canopy", arn = "arn:aws:eks:eu-central-1:123456789012:cluster/canopy" }
  region     = "eu-central-1"
  account_id = "123456789012"
  queue_arn  = "arn:aws:sqs:eu-central-1:123456789012:canopy-karpenter"
}

run "only_its_own_machines" {
  command = plan
  assert {
    condition = alltrue([
      for s in jsondecode(data.aws_iam_policy_document.machines.json).Statement :
      can(s.Condition.StringEquals["aws:RequestTag/kubernetes.io/cluster/canopy"]) || can(s.Condition.StringEquals["aws:ResourceTag/kubernetes.io/cluster/canopy"])
      if s.Sid != "MakeFrom"
    ])
    error_message = "Karpenter could make, change or end machines that are not its cluster's"
  }
  assert {
    condition     = alltrue([for s in jsondecode(data.aws_iam_policy_document.machines.json).Statement : !contains(flatten([s.Resource]), "*")])
    error_message = "a right over everything"
  }
  assert {
    condition     = one([for s in jsondecode(data.aws_iam_policy_document.rest.json).Statement : s if s.Sid == "GiveNodesTheirRole"]).Resource == "arn:aws:iam::123456789012:role/canopy-karpenter-node"
    error_message = "Karpenter could give a machine any role"
  }
  assert {
    condition     = toset([for s in jsondecode(data.aws_iam_policy_document.rest.json).Statement : s.Sid if contains(flatten([s.Resource]), "*")]) == toset(["LookAround", "Prices"])
    error_message = "a right over everything"
  }
  assert {
    condition     = !strcontains(data.aws_iam_policy_document.rest.json, "iam:Create") && !strcontains(data.aws_iam_policy_document.rest.json, "iam:Add")
    error_message = "the instance profile is made here, not by Karpenter"
  }
}
