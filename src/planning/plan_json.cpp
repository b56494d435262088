#include <nlohmann/json.hpp>

#include "planning/plan_report.hpp"
#include "spec/codec.hpp"

namespace muster::planning {
namespace {

using Json = nlohmann::ordered_json;

Json place_json(plan::Place place) {
  if (place.kind == plan::Place::Kind::gpu) return place.gpu;
  return to_string(place);
}

Json map_json(const plan::Plan& plan) {
  if (!plan.map) return nullptr;
  Json map = Json::object();
  for (const auto& [path, place] : plan.map->entries) map[path] = place_json(place);
  return map;
}

Json rank_json(const plan::RankPlan& rank) {
  Json components = Json::object();
  for (std::size_t i = 0; i < plan::component_count; ++i)
    components[std::string(name(static_cast<plan::Component>(i)))] = rank.memory.bytes[i];
  Json json{{"rank", rank.rank},
            {"host", rank.host},
            {"gpu", rank.gpu ? Json(rank.gpu->number) : Json(nullptr)},
            {"uuid", rank.gpu ? Json(rank.gpu->uuid) : Json(nullptr)},
            {"name", rank.gpu ? Json(rank.gpu->name) : Json(nullptr)},
            {"fits", rank.fits()},
            {"peak_bytes", rank.memory.peak()},
            {"total_bytes", rank.memory.total()},
            {"limit_bytes", rank.limit_is_known() ? Json(rank.limit) : Json(nullptr)},
            {"highest_at", rank.memory.moment},
            {"host_bytes", rank.memory.host},
            {"components", std::move(components)}};
  if (rank.layers)
    json["layers"] = {{"first", rank.layers->first_block},
                      {"end", rank.layers->end_block},
                      {"embedding", rank.layers->has_embedding},
                      {"head", rank.layers->has_head}};
  return json;
}

Json refusal_json(const plan::Plan& plan, const RemedyCommand& command) {
  if (!plan.refusal) return nullptr;
  Json remedies = Json::array();
  for (const plan::Remedy& remedy : plan.refusal->remedies)
    remedies.push_back({{"change", remedy.change},
                        {"command", command(remedy.settings)},
                        {"peak_bytes", remedy.peak},
                        {"host_bytes", remedy.host},
                        {"missing_in_muster", remedy.missing}});
  return {{"reason", plan.refusal->reason},
          {"shortfall_bytes", plan.refusal->shortfall},
          {"remedies", std::move(remedies)}};
}

}  // namespace

std::string plan_json(const plan::Question& question, const plan::Plan& plan, const RemedyCommand& command) {
  const plan::Workload& work = plan.workload;
  const bool fsdp = plan.layout.scheme == plan::Scheme::fsdp;
  const bool hybrid = fsdp && plan.layout.sharding == spec::ShardingStrategy::hybrid_shard;
  Json json{{"fits", plan.fits()},
            {"model", question.model->name},
            {"parameters", plan.parameters},
            {"work", work.work == plan::Work::training ? "training" : "inference"},
            {"implementation", work.implementation == plan::Implementation::muster ? "muster" : "transformers"},
            {"dtype", weight_name(work)},
            {"mixed_precision", work.mixed_precision},
            {"strategy", name(plan.layout.scheme)},
            {"sharding", fsdp ? Json(spec::write(plan.layout.sharding)) : Json(nullptr)},
            {"shard_group", hybrid ? Json(plan.layout.shard_group) : Json(nullptr)},
            {"offload", plan.layout.offload},
            {"world_size", plan.layout.world},
            {"sequence_length", work.sequence},
            {"unit", plan::unit_word(work)},
            {"micro_batch", work.micro_batch},
            {"accumulation", work.accumulation},
            {"effective_batch", plan.effective_batch}};
  Json ranks = Json::array();
  for (const plan::RankPlan& rank : plan.ranks) ranks.push_back(rank_json(rank));
  json["ranks"] = std::move(ranks);
  json["device_map"] = map_json(plan);
  json["duplicated_bytes"] = plan.duplicated;
  Json off_gpu = Json::object();
  for (const auto& [place, bytes] : plan.off_gpu) off_gpu[to_string(place)] = bytes;
  json["off_gpu_bytes"] = std::move(off_gpu);
  json["batches"] =
      plan.batches ? Json{{"generation", plan.batches->generation}, {"scoring", plan.batches->scoring}} : Json(nullptr);
  if (!plan.phases.empty()) {
    Json phases = Json::array();
    for (const plan::Phase& phase : plan.phases)
      phases.push_back({{"name", phase.name},
                        {"total_bytes", phase.bytes},
                        {"limit_bytes", phase.limit == plan::unknown_limit ? Json(nullptr) : Json(phase.limit)}});
    json["phases"] = std::move(phases);
    json["side_by_side"] = plan.side_by_side.value_or(0);
  }
  json["reasons"] = plan.reasons;
  json["notes"] = question.model->notes;
  json["refusal"] = refusal_json(plan, command);
  return json.dump(2);
}

}  // namespace muster::planning
