#include "lab/load/workload.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lab/engine/words.hpp"
#include "lab/text.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::lab::load {
namespace {

/// The same number gives the same text within a load, and another one with another seed.
engine::Random random_of(std::uint64_t seed, std::uint64_t number) {
  return engine::Random(seed * 0x9e3779b97f4a7c15u + number);
}

/// Each block has the text of its id, whatever stands around it. Tokens beyond the blocks belong to this request alone.
std::string text_of_blocks(std::uint64_t seed, const TraceEntry& entry) {
  std::string text;
  std::uint64_t left = entry.prompt_tokens;
  const auto add = [&](std::uint64_t tokens, engine::Random random) {
    if (!text.empty()) text += ' ';
    text += engine::prompt_text(tokens, random);
    left -= tokens;
  };
  for (const std::uint64_t id : entry.blocks) {
    // Ids of blocks and numbers of requests are kept apart.
    if (left > 0) add(std::min(left, entry.block_tokens), random_of(~seed, id));
  }
  if (left > 0) add(left, random_of(seed, entry.conversation));
  return text;
}

std::vector<std::string> texts_of_parts(std::uint64_t seed, const TraceEntry& entry) {
  std::vector<std::string> texts;
  for (const TraceEntry::Part& part : entry.parts) {
    engine::Random random = random_of(~seed, part.text);
    const std::string text = engine::prompt_text(part.tokens, random);
    if (part.begins_message || texts.empty())
      texts.push_back(text);
    else
      texts.back().append(" ").append(text);
  }
  return texts;
}

/// Draws a gamma number with mean 1 and this shape (Marsaglia and Tsang 2000).
double gamma(engine::Random& random, double shape) {
  if (shape < 1) return gamma(random, shape + 1) * (shape + 1) / shape * std::pow(1 - random.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v / shape;
  }
}

}  // namespace

std::optional<Arrivals> arrivals_of(std::string_view text) {
  if (text == "poisson") return Arrivals{};
  if (text == "constant") return Arrivals{Arrivals::Kind::constant};
  const auto number = [text](std::string_view prefix, auto least, auto most) -> std::optional<decltype(least)> {
    if (!text.starts_with(prefix)) return std::nullopt;
    const auto value = number_in<decltype(least)>(text.substr(prefix.size()));
    return value && *value >= least && *value <= most ? value : std::nullopt;
  };
  if (const auto cv = number("gamma:", 0.01, 100.0)) return Arrivals{Arrivals::Kind::gamma, *cv};
  if (const auto size = number("burst:", std::uint64_t{1}, std::uint64_t{100'000}))
    return Arrivals{Arrivals::Kind::burst, 1, *size};
  return std::nullopt;
}

Workload::Workload(WorkloadSettings settings)
    : settings_(std::move(settings)), lengths_(settings_.seed), arrivals_(~settings_.seed) {
  if (!settings_.turns) return;
  children_.resize(settings_.trace.size());
  for (std::size_t i = 0; i < settings_.trace.size(); ++i)
    if (const auto parent = settings_.trace[i].parent) children_[*parent].push_back(i);
}

/// Draws a normal number. Values below one token are drawn again, as LLMPerf does.
std::uint64_t Workload::draw(double mean, double stddev, const std::optional<Range>& range) {
  if (range) {
    const double drawn = range->from + lengths_.uniform() * (range->to - range->from);
    return static_cast<std::uint64_t>(std::max(1.0, std::round(drawn)));
  }
  for (int attempt = 0; attempt < 100; ++attempt) {
    const double drawn = std::round(mean + stddev * lengths_.normal());
    if (drawn >= 1) return static_cast<std::uint64_t>(drawn);
  }
  return 1;
}

/// Returns the gap before the next request, whose mean is 1.
double Workload::next_gap() {
  const Arrivals& arrivals = settings_.arrivals;
  switch (arrivals.kind) {
    case Arrivals::Kind::constant:
      return 1;
    case Arrivals::Kind::gamma:
      return gamma(arrivals_, 1 / (arrivals.cv * arrivals.cv));
    case Arrivals::Kind::burst:
      return gaps_++ % arrivals.size == 0 ? static_cast<double>(arrivals.size) : 0;
    case Arrivals::Kind::poisson:
      break;
  }
  return arrivals_.exponential();
}

Planned Workload::of_trace(std::uint64_t number) const {
  const TraceEntry& entry = settings_.trace[number % settings_.trace.size()];
  return {number, 0, entry.prompt_tokens, entry.output_tokens};
}

std::vector<Planned> Workload::turns_after(std::uint64_t number) const {
  std::vector<Planned> turns;
  if (!settings_.turns) return turns;
  for (const std::size_t child : children_[number]) {
    turns.push_back(of_trace(child));
    turns.back().at = settings_.trace[child].think / settings_.trace_speed;
  }
  return turns;
}

std::optional<Planned> Workload::next() {
  Planned planned;
  while (settings_.turns && count_ < settings_.trace.size() && settings_.trace[count_].parent) ++count_;
  planned.number = count_++;
  const auto& trace = settings_.trace;
  if (trace.empty()) {
    planned.prompt_tokens = draw(settings_.input_tokens, settings_.input_stddev, settings_.input_range);
    planned.output_tokens = draw(settings_.output_tokens, settings_.output_stddev, settings_.output_range);
  } else {
    if ((settings_.trace_arrivals || settings_.turns) && planned.number >= trace.size()) return std::nullopt;
    planned = of_trace(planned.number);
    if (settings_.trace_arrivals) planned.at = trace[planned.number % trace.size()].at / settings_.trace_speed;
  }
  if (settings_.rate) planned.at = at_ += next_gap() / *settings_.rate;
  return planned;
}

/// Each pass of a trace has a seed of its own, so that a prefix cache finds nothing of the pass before.
std::uint64_t Workload::seed_of_texts(const Planned& planned) const {
  const std::uint64_t pass = settings_.trace.empty() ? 0 : planned.number / settings_.trace.size();
  return settings_.seed + 1'000'000'007 * settings_.texts + 1'000'000'009 * pass;
}

std::vector<std::string> Workload::messages(const Planned& planned) const {
  const std::uint64_t seed = seed_of_texts(planned);
  const auto& trace = settings_.trace;
  if (!trace.empty()) {
    const TraceEntry& entry = trace[planned.number % trace.size()];
    if (!entry.blocks.empty()) return {text_of_blocks(seed, entry)};
    if (!entry.parts.empty()) return texts_of_parts(seed, entry);
  }
  engine::Random random = random_of(seed, planned.number);
  return {engine::prompt_text(planned.prompt_tokens, random)};
}

std::string_view path_of(Api api) {
  constexpr std::string_view paths[]{"/v1/chat/completions", "/v1/completions", "/generate_stream"};
  return paths[static_cast<std::size_t>(api)];
}

std::string request_body(Api api, std::string_view model, std::span<const std::string> messages, const Wanted& wanted) {
  metrics::wire::JsonWriter body;
  body.open('{');
  std::string prompt;
  for (std::size_t i = 0; i < messages.size() && api != Api::chat; ++i) {
    if (i > 0) prompt += '\n';
    prompt += messages[i];
  }
  if (api == Api::tgi) {
    body.key("inputs").text(prompt).key("parameters").open('{').key("max_new_tokens").count(wanted.max_tokens);
    return body.key("details").boolean(wanted.usage).close('}').close('}').written();
  }
  if (!model.empty()) body.key("model").text(model);
  if (api == Api::chat) {
    body.key("messages").open('[');
    for (std::size_t i = 0; i < messages.size(); ++i) {
      body.open('{').key("role").text(i % 2 == 0 ? "user" : "assistant").key("content").text(messages[i]).close('}');
    }
    body.close(']');
  } else {
    body.key("prompt").text(prompt);
  }
  body.key("max_tokens").count(wanted.max_tokens).key("stream").boolean(true);
  if (wanted.ignore_eos) body.key("ignore_eos").boolean(true);
  if (wanted.usage) body.key("stream_options").open('{').key("include_usage").boolean(true).close('}');
  return body.close('}').written();
}

}  // namespace weir::lab::load
