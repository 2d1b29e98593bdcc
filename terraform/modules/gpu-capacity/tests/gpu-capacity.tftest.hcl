# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

variables {
  name           = "canopy-gpu"
  cluster_name   = "canopy"
  vpc_id         = "vpc-0123456789abcdef0"
  subnet_ids     = ["subnet-0123456789abcdef0"]
  instance_types = ["g6.2xlarge", "g5.2xlarge"]
  ami_id         = "ami-0123456789abcdef0"
  machines       = { min = 0, max = 2 }
  tags           = { Project = "canopy" }
}

run "encrypted_tagged_and_drained" {
  command = plan
  assert {
    condition     = aws_launch_template.this.metadata_options[0].http_tokens == "required" && aws_launch_template.this.metadata_options[0].http_put_response_hop_limit == 1
    error_message = "a task could get the machine's credentials"
  }
  assert {
    condition     = aws_launch_template.this.block_device_mappings[0].ebs[0].encrypted == "true"
    error_message = "models lie on disk in the clear"
  }
  assert {
    condition     = alltrue([for s in aws_launch_template.this.tag_specifications : s.tags.Project == "canopy"])
    error_message = "GPU machines cannot be told apart on the bill"
  }
  assert {
    condition     = strcontains(base64decode(aws_launch_template.this.user_data), "ECS_ENABLE_SPOT_INSTANCE_DRAINING=true")
    error_message = "tasks on spot machines get no warning"
  }
}

run "a_machine_without_gpus" {
  command = plan
  variables { instance_types = ["m7i.large"] }
  expect_failures = [var.instance_types]
}

run "fewer_at_most_than_at_least" {
  command = plan
  variables { machines = { min = 3, max = 2 } }
  expect_failures = [var.machines]
}
