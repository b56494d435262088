#include "chat/chat_template.hpp"

#include <fmt/format.h>

#include "chat/json_value.hpp"
#include "chat/renderer.hpp"
#include "chat/template_parser.hpp"

namespace muster::chat {
namespace {

constexpr std::size_t longest_source = 4'000'000;

Error refusal(const std::string& name, const TemplateFailure& failure, std::string remedy) {
  return {Error::Kind::bad_input, fmt::format("{}: line {}: {}", name, failure.line, failure.what), std::move(remedy)};
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string_view name) {
  constexpr std::string_view remedy = "check that the chat template is whole";
  if (source.size() > longest_source)
    return Error{Error::Kind::bad_input,
                 fmt::format("{}: {} bytes are too long for a chat template", name, source.size()),
                 std::string(remedy)};
  ParsedTemplate parsed = parse_template(source);
  if (parsed.failure) return refusal(std::string(name), *parsed.failure, std::string(remedy));
  return ChatTemplate(std::string(name), std::string(source),
                      std::make_shared<const TemplateTree>(std::move(parsed.tree)));
}

Result<ChatTemplate::Rendered> ChatTemplate::render(const nlohmann::ordered_json& variables,
                                                    const RenderOptions& options) const {
  const auto converted = from_json(variables);
  if (!converted || converted->dictionary() == nullptr)
    return Error{Error::Kind::bad_input, fmt::format("{}: the variables are not an object, or are nested too deep", name_),
                 "give messages, tools and the other variables as one object"};
  Renderer renderer(options, *converted->dictionary());
  Rendered rendered;
  rendered.text = renderer.render(*tree_);
  if (const auto& failure = renderer.evaluation().failure())
    return refusal(name_, *failure, "check the messages and what the template expects of them");
  for (const Renderer::Span& span : renderer.generated()) rendered.generated.push_back({span.begin, span.end});
  return rendered;
}

}  // namespace muster::chat
