output "cluster" {
  description = "Name of the cluster, for `aws eks update-kubeconfig --name`."
  value       = module.cluster.name
}

output "karpenter" {
  description = "Values of Karpenter's chart (settings.*) and of the EC2NodeClass."
  value = {
    cluster_name       = module.cluster.name
    cluster_endpoint   = module.cluster.endpoint
    interruption_queue = module.interruptions.name
    isolated_vpc       = true # prices come from Karpenter's own list: the price API has no endpoint
    instance_profile   = module.karpenter.instance_profile
    discovery_tag      = { key = aws_ec2_tag.discovery.key, value = aws_ec2_tag.discovery.value }
  }
}

output "vpc_id" {
  description = "VPC, for the load balancer controller's value vpcId: pods cannot ask the machine for it."
  value       = module.network.vpc_id
}

output "drain_queue_url" {
  description = "Queue of `python -m deploy watch-interruptions`."
  value       = module.drain_notices.url
}

output "image_repositories" {
  description = "Repositories to push the server's image and the mirrored images to."
  value       = module.registry.urls
}

output "models_bucket" {
  description = "Bucket that models are pushed to."
  value       = module.models.name
}

output "api_keys_secret" {
  description = "Secret with the API's keys, one per line; a random first one is in it."
  value       = module.api_keys.name
}

output "log_groups" {
  description = "Groups that Fluent Bit writes to: lines about requests, and lines about minutes."
  value       = { detailed = module.log_groups.detailed.name, aggregated = module.log_groups.aggregated.name }
}

output "alerts_topic" {
  description = "Topic of alarms, budgets and anomalies; Alertmanager's sns_configs name it."
  value       = module.alerts.topic_arn
}

output "role_arns" {
  description = "Role of every component, for what needs to name it."
  value = {
    karpenter                = module.karpenter.controller_role_arn
    load_balancer_controller = module.load_balancer_controller.role_arn
    verifier                 = module.reader["verifier"].role_arn
    drafter                  = module.reader["drafter"].role_arn
    external_secrets         = module.external_secrets.role_arn
    fluent_bit               = module.fluent_bit.role_arn
    alertmanager             = module.alertmanager.role_arn
    drainer                  = module.drainer.role_arn
  }
}
