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
  target = data.aws_caller_identity.current
  values = { account_id = "123456789012" }
}

run "for_one_cluster_of_this_account" {
  command = plan
  variables {
    name            = "canopy-verifier"
    cluster         = { name = "canopy", arn = "arn:aws:eks:eu-central-1:123456789012:cluster/canopy" }
    namespace       = "canopy"
    service_account = "canopy-verifier"
  }

  assert {
    condition     = jsondecode(data.aws_iam_policy_document.trust.json).Statement[0].Condition.ArnEquals["aws:SourceArn"] == var.cluster.arn
    error_message = "another cluster could use the role"
  }
  assert {
    condition     = aws_eks_pod_identity_association.this.service_account == "canopy-verifier" && aws_eks_pod_identity_association.this.namespace == "canopy"
    error_message = "other pods get the role"
  }
}
