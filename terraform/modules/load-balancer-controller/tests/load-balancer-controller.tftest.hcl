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

run "only_its_own_load_balancers" {
  command = plan
  variables { cluster = { name = "canopy", arn = "arn:aws:eks:eu-central-1:123456789012:cluster/canopy" } }

  assert {
    condition = alltrue([
      for s in jsondecode(data.aws_iam_policy_document.balance.json).Statement : can(s.Condition)
      if !contains(["LookAround", "MakeGroupsInVpcs"], s.Sid)
    ])
    error_message = "the controller could change what it has not made"
  }
  assert {
    condition     = alltrue([for a in one([for s in jsondecode(data.aws_iam_policy_document.balance.json).Statement : s if s.Sid == "LookAround"]).Action : can(regex(":(Describe|List|Get)", a))])
    error_message = "looking around changes something"
  }
}
