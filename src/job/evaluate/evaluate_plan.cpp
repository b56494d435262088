// From a user's request to an evaluation that fits: everything that can be refused is refused here.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/count_of.hpp"
#include "chat/model_text.hpp"
#include "data/row_questions.hpp"
#include "host/device_choice.hpp"
#include "job/arithmetic_data.hpp"
#include "job/builtin_model.hpp"
#include "job/evaluate/evaluate.hpp"
#include "job/model_forms.hpp"
#include "job/placement.hpp"
#include "job/question_file.hpp"
#include "planning/plan_question.hpp"
#include "spec/readers.hpp"
#include "system/allotted_cores.hpp"

namespace muster::job {
namespace {

// Samples per pass, and questions answered at once, if that many fit.
constexpr std::int64_t usual_samples_on_cpu = 8;
constexpr std::int64_t usual_samples_on_gpu = 32;
constexpr std::int64_t usual_questions = 64;

std::optional<std::string> data_of(const spec::DataSpec& data) { return data.eval_path ? data.eval_path : data.path; }

// A run's configuration may say that its training began from random weights; what is evaluated is its result.
void forget_how_training_began(spec::ResolvedSpec& settings) {
  const auto found = settings.origins.find("model.init");
  if (found == settings.origins.end() || found->second.kind == spec::Origin::Kind::command_line) return;
  settings.spec.model.init = spec::WeightSource::checkpoint;
}

std::vector<Problem> problems_of(const EvaluateRequest& request) {
  const spec::RunSpec& spec = request.settings.spec;
  spec::ResolvedSpec concerning = request.settings;
  std::erase_if(concerning.origins,
                [](const auto& entry) { return !spec::reads(spec::Command::evaluate, entry.first); });
  std::vector<Problem> problems = missing_capabilities(spec::Schema(), concerning);
  const auto report = [&](const std::string& key, std::string what, std::string remedy) {
    const auto found = request.settings.origins.find(key);
    problems.push_back(
        {found == request.settings.origins.end() ? "" : found->second.where, std::move(what), std::move(remedy)});
  };
  if (!spec.model.path)
    report("model.path", "no model is named", "-m MODEL: a folder, or a name that muster model list shows");
  else if (is_builtin_model(*spec.model.path) && spec.model.init != spec::WeightSource::random)
    report("model.path", fmt::format("{} has no weights", *spec.model.path),
           "muster train makes some, in the folder model of its run: -m RUN/model");
  if (!data_of(spec.data) && !request.questions)
    report("data.path", "neither data nor questions are named",
           "--data FILE, --data builtin:arithmetic, or --questions FILE");
  if (request.exact_match && request.questions)
    report("", "--exact-match asks the rows of the data, and --questions has others", "leave one of the two out");
  if (request.exact_match && !data_of(spec.data))
    report("", "--exact-match asks the rows of the data, and none is named", "--data FILE");
  if (spec.model.device_map && *spec.model.device_map != spec::DeviceMap{spec::MapRule::automatic})
    report("model.device_map", "evaluation gives each rank the whole model", "leave the device map out, or write auto");
  return problems;
}

// Questions as the ranks read them.
struct PreparedQuestions {
  std::string path;
  std::int64_t count = 0;
  std::int64_t longest = 0;         // prompt and answer, in tokens
  std::int64_t longest_answer = 0;  // the longest that is waited for
};

Result<std::vector<data::RowQuestion>> find_questions(const EvaluateRequest& request, const chat::ModelText& text) {
  if (request.questions) return data::questions_of_file(*request.questions, text);
  const spec::RunSpec& spec = request.settings.spec;
  const auto data = data_of(spec.data);
  if (data == data::arithmetic_name) return held_out_questions(spec);
  if (!request.exact_match) return std::vector<data::RowQuestion>();
  return data::questions_of_rows(*data, text);
}

Result<std::optional<PreparedQuestions>> prepare_questions(const EvaluateRequest& request, const chat::ModelText& text,
                                                           std::int64_t positions, const std::filesystem::path& cache) {
  const auto questions = find_questions(request, text);
  if (!questions) return questions.error();
  if (questions->empty()) return std::optional<PreparedQuestions>();
  PreparedQuestions prepared;
  for (const data::RowQuestion& question : *questions) {
    ++prepared.count;
    const auto prompt = question.rendered ? text.encode_rendered(question.prompt) : text.encode(question.prompt);
    if (!prompt) return prompt.error();
    const auto answer = text.encode_rendered(question.answer);
    if (!answer) return answer.error();
    const std::int64_t both = std::ssize(*prompt) + std::ssize(*answer) + 1;
    if (both > positions || prompt->empty())
      return Error{Error::Kind::bad_input,
                   fmt::format("question {}: prompt and answer have {} and {} tokens, and the model has {} positions",
                               prepared.count, prompt->size(), answer->size(), positions),
                   "leave out questions that are empty, or too long for the model"};
    const std::int64_t waited = data::most_answer_tokens(std::ssize(*answer));
    prepared.longest = std::max(prepared.longest, std::min(std::ssize(*prompt) + waited, positions));
    prepared.longest_answer = std::max(prepared.longest_answer, std::min(waited, positions - 1));
  }
  const auto path = keep_questions(*questions, cache);
  if (!path) return path.error();
  prepared.path = path->string();
  return std::optional(std::move(prepared));
}

// A model that would have to be split is refused.
Result<Placement> place_whole(PlacementOptions options, std::int64_t usual) {
  auto placed = place_batch(options, usual, true);
  if (!placed || placed->stages.empty()) return placed;
  return Error{Error::Kind::refused, "the model does not fit one device, and evaluation gives each rank all of it",
               "--dtype bfloat16, a smaller training.sequence_length, or a device with more memory; muster plan "
               "shows where the memory goes"};
}

class Planning {
 public:
  Planning(host::Host& host, const EvaluateRequest& request, const data::OnPreparation& progress)
      : host_(host), request_(request), spec_(request.settings.spec), progress_(progress) {}

  Result<EvaluatePlan> make() {
    auto devices =
        host::choose_devices(host_, spec_.distributed, std::numeric_limits<std::int64_t>::max(), request_.purpose);
    if (!devices) return devices.error();
    devices_ = std::move(*devices);
    plan_.notes = devices_.notes;
    if (auto found = read(); !found) return found.error();
    if (auto prepared = prepare(); !prepared) return prepared.error();
    if (auto placed = place(); !placed) return placed.error();
    plan_.job.name = "evaluate";
    plan_.job.ranks = static_cast<int>(plan_.plan.ranks.size());
    plan_.job.backend = spec_.distributed.backend;
    plan_.job.assignment.task = task_;
    plan_.job.assignment.timeout = std::chrono::minutes(spec_.distributed.timeout_minutes);
    plan_.job.assignment.seed = static_cast<std::uint64_t>(spec_.experiment.seed);
    plan_.job.selection = gpus_of(plan_.plan);
    plan_.device = device_words(plan_.plan, plan_.plan.ranks.size(), "cpu");
    if (request_.purpose == host::Purpose::plan)
      plan_.plan.reasons.insert(plan_.plan.reasons.end(), devices_.notes.begin(), devices_.notes.end());
    if (auto checked = check_backend(plan_.job); !checked) return checked.error();
    return std::move(plan_);
  }

 private:
  // The model and its text.
  Result<void> read() {
    spec::RunSpec settings = spec_;
    settings.model.dtype = host::type_to_hold(spec_.model.computed_type(), devices_);
    Result<std::filesystem::path> model = std::filesystem::path(*spec_.model.path);
    if (is_builtin_model(*spec_.model.path)) model = builtin_model_folder(cache_, *spec_.model.path);
    if (!model) return model.error();
    settings.model.path = model->string();
    auto question = ask(host_, inference_request(settings), devices_);
    if (!question) return question.error();
    plan_.question = std::move(*question);
    if (auto checked = check_weights(plan_.question, spec_.model,
                                     "name the folder that has model.safetensors, which is the folder model of a run; "
                                     "model.init=random draws weights, to measure speed");
        !checked)
      return checked;
    if (auto checked = check_predicts_tokens(*plan_.question.model); !checked) return checked;
    if (auto checked = check_one_adapter(spec_.model); !checked) return checked;
    const auto adapters = given_adapters(spec_.model, plan_.question.model->shape);
    if (!adapters) return adapters.error();
    if (auto counted = count_adapters(plan_.question, *adapters); !counted) return counted.error();
    auto text = chat::read_model_text(spec_.model.tokenizer.value_or(*settings.model.path),
                                      spec::model_search_from_environment());
    if (!text) return text.error();
    text_.emplace(std::move(*text));
    if (const auto form = asked_form(spec_.model, plan_.question.model->shape); !form) return form.error();
    task_.model = model_choice(settings, host::element_type(settings.model.dtype));
    return {};
  }

  Result<void> prepare() {
    const std::int64_t positions = plan_.question.model->config.positions;
    if (const auto path = data_of(spec_.data)) {
      data::DataRequest asked;
      asked.path = plan_.data = *path;
      asked.arithmetic = arithmetic_settings(spec_);
      asked.sequence_length = std::min(spec_.training.sequence_length, positions);
      asked.train_on = spec_.data.train_on;
      const auto prepared = data::prepare_evaluation(asked, *text_, cache_, allotted_cores(), progress_);
      if (!prepared) return prepared.error();
      task_.data = prepared->path.string();
      plan_.counts = prepared->counts;
      note_losses();
    }
    auto questions = prepare_questions(request_, *text_, positions, cache_);
    if (!questions) return questions.error();
    questions_ = std::move(*questions);
    if (!questions_) return {};
    task_.questions = questions_->path;
    plan_.questions = questions_->count;
    return {};
  }

  void note_losses() {
    if (plan_.counts->cut > 0)
      plan_.notes.push_back(fmt::format("{} of {} {} longer than training.sequence_length and lost {} end", plan_.counts->cut,
                                        count_of(plan_.counts->samples, "sample"), plan_.counts->cut == 1 ? "is" : "are",
                                        plan_.counts->cut == 1 ? "its" : "their"));
    if (plan_.counts->dropped > 0)
      plan_.notes.push_back(
          fmt::format("{} left out: no token with a loss within training.sequence_length",
                      count_of(plan_.counts->dropped, "sample")));
  }

  // Both parts of the work must fit; the plan shown is the larger one.
  Result<void> place() {
    if (plan_.counts) {
      plan::Question scoring = plan_.question;
      scoring.workload.sequence = plan_.counts->longest;
      scoring.workload.new_tokens = 0;
      const std::int64_t usual = devices_.gpus.empty() ? usual_samples_on_cpu : usual_samples_on_gpu;
      if (auto placed = place(scoring, usual, task_.micro_batch); !placed) return placed;
    }
    if (questions_) {
      plan::Question answering = plan_.question;
      answering.workload.sequence = questions_->longest;
      answering.workload.new_tokens = questions_->longest_answer;
      if (auto placed = place(answering, std::min(usual_questions, questions_->count), task_.question_batch); !placed)
        return placed;
    }
    return {};
  }

  Result<void> place(const plan::Question& question, std::int64_t usual, std::int64_t& batch) {
    if (placed_ && !plan_.plan.fits()) return {};
    auto placed = place_whole({question, devices_.ranks, spec_.model.max_memory}, usual);
    if (!placed) return placed.error();
    batch = placed->plan.workload.micro_batch;
    const auto peak = [](const plan::Plan& plan) { return plan.ranks.front().memory.total(); };
    if (!placed_ || !placed->plan.fits() || peak(placed->plan) > peak(plan_.plan)) {
      plan_.plan = std::move(placed->plan);
      plan_.question.workload = plan_.plan.workload;
      plan_.question.micro_batch = plan_.plan.workload.micro_batch;
    }
    placed_ = true;
    return {};
  }

  host::Host& host_;
  const EvaluateRequest& request_;
  const spec::RunSpec& spec_;
  const data::OnPreparation& progress_;
  const std::filesystem::path cache_ = data::cache_folder_from_environment();
  host::ChosenDevices devices_;
  EvaluatePlan plan_;
  wire::EvaluateTask task_;
  std::optional<chat::ModelText> text_;
  std::optional<PreparedQuestions> questions_;
  bool placed_ = false;
};

}  // namespace

Result<EvaluatePlan> plan_evaluation(host::Host& host, const EvaluateRequest& asked, const data::OnPreparation& progress) {
  EvaluateRequest request = asked;
  if (auto taken = take_model_name(request.settings.spec.model); !taken) return taken.error();
  forget_how_training_began(request.settings);
  if (const auto problems = problems_of(request); !problems.empty()) return to_error(problems);
  return Planning(host, request, progress).make();
}

Error refusal_of(const EvaluatePlan& plan) {
  return refusal_of(plan.plan, spec::Command::evaluate, "a smaller model, fewer ranks, or a device with more memory");
}

}  // namespace muster::job
