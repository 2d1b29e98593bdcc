# GPU machines of an ECS cluster: on-demand first, spot beyond, as many as the tasks need.

data "aws_partition" "current" {}

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "machine" {
  name               = "${var.name}-machine"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy_attachment" "machine" {
  role = aws_iam_role.machine.name
  # What the ECS agent needs to register and to report; tasks have roles of their own.
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role"
}

resource "aws_iam_instance_profile" "machine" {
  name = "${var.name}-machine"
  role = aws_iam_role.machine.name
}

resource "aws_security_group" "machine" {
  name        = "${var.name}-machine"
  description = "GPU machines: nothing comes in, tasks have interfaces of their own"
  vpc_id      = var.vpc_id
  tags        = { Name = "${var.name}-machine" }
}

resource "aws_vpc_security_group_egress_rule" "machine" {
  security_group_id = aws_security_group.machine.id
  description       = "HTTPS to the VPC's endpoints and to S3 by its gateway"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_launch_template" "this" {
  name                   = var.name
  image_id               = var.ami_id
  vpc_security_group_ids = [aws_security_group.machine.id]
  update_default_version = true
  user_data              = base64encode(templatefile("${path.module}/user_data.sh", { cluster = var.cluster_name }))

  iam_instance_profile {
    arn = aws_iam_instance_profile.machine.arn
  }

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1 # tasks have roles of their own and no business with the machine's
  }

  monitoring {
    enabled = true
  }

  block_device_mappings {
    device_name = "/dev/xvda"
    ebs {
      volume_size           = var.disk_gb
      volume_type           = "gp3"
      throughput            = 500 # MB/s; a model is read from here at every start
      encrypted             = true
      delete_on_termination = true
    }
  }

  dynamic "tag_specifications" {
    for_each = ["instance", "volume", "network-interface"]
    content {
      resource_type = tag_specifications.value
      tags          = merge(var.tags, { Name = var.name })
    }
  }
}

resource "aws_autoscaling_group" "this" {
  name                  = var.name
  vpc_zone_identifier   = var.subnet_ids
  min_size              = var.machines.min
  max_size              = var.machines.max
  protect_from_scale_in = true # ECS decides when a machine is empty
  capacity_rebalance    = true

  mixed_instances_policy {
    instances_distribution {
      on_demand_base_capacity                  = var.on_demand.base
      on_demand_percentage_above_base_capacity = var.on_demand.percentage
      on_demand_allocation_strategy            = "prioritized"
      spot_allocation_strategy                 = "price-capacity-optimized"
    }
    launch_template {
      launch_template_specification {
        launch_template_id = aws_launch_template.this.id
        version            = aws_launch_template.this.latest_version
      }
      dynamic "override" {
        for_each = var.instance_types
        content {
          instance_type = override.value
        }
      }
    }
  }

  dynamic "tag" {
    for_each = merge(var.tags, { Name = var.name, AmazonECSManaged = "true" })
    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }

  lifecycle {
    ignore_changes = [desired_capacity]
  }
}

resource "aws_ecs_capacity_provider" "this" {
  name = var.name

  auto_scaling_group_provider {
    auto_scaling_group_arn         = aws_autoscaling_group.this.arn
    managed_termination_protection = "ENABLED"
    managed_draining               = "ENABLED"

    managed_scaling {
      status          = "ENABLED"
      target_capacity = 100 # GPUs are too dear to wait for work
    }
  }
}
