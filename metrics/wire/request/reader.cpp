#include "metrics/wire/request/reader.hpp"

namespace weir::metrics::wire {

namespace {

constexpr std::size_t longest_model = 128;

}  // namespace

/// The place of the value that comes now: a member's by its key, an element's by its array.
RequestReader::Place RequestReader::value_place() const {
  if (open_.empty()) return Place::root;
  if (!open_.back().array) return member_;
  switch (open_.back().place) {
    case Place::messages:
      return Place::message;
    case Place::content:
      return Place::part;
    case Place::prompt:
      return Place::prompt_of_list;
    case Place::prompt_of_list:
    case Place::token_ids:
      return Place::token_of_list;
    case Place::images:
      return Place::image;
    case Place::text_tree:
    case Place::tool_tree:
      return open_.back().place;
    default:
      return Place::ignored;
  }
}

/// A key of the outermost object has come, maybe once more: what its value said before is void.
void RequestReader::begin_member(const RequestMember& member) {
  switch (member.place) {
    case Place::options:
      sampling_ = {};
      return;
    case Place::sampling_params:
      sglang_ = {};
      return;
    case Place::stream_options:
      stream_options_ = true;
      usage_requested_ = false;
      return;
    case Place::timings_per_token:
      token_timings_ = true;
      return;
    case Place::tools:
      tools_ = false;
      tool_bytes_ = 0;
      break;
    case Place::messages:
    case Place::prompt:
    case Place::text:
    case Place::system:
    case Place::images:
    case Place::token_ids:
      break;
    default:
      return forget(member.place);
  }
  from_ = member.from;
  source() = {};
  source().begun = true;
}

void RequestReader::key_text(std::string_view piece) {
  const Place in = open_.back().place;
  if (in == Place::tool_tree) tool_bytes_ += piece.size();
  if (in == Place::tool_tree || in == Place::text_tree) source().scripts.add(piece);
}

void RequestReader::key(std::string_view name) {
  const Place in = open_.back().place;
  if (in == Place::tool_tree || in == Place::text_tree) {
    if (in == Place::tool_tree) tool_bytes_ += 3;  // Two quotes and a colon.
    member_ = in;
    return;
  }
  const RequestMember& member = member_of(in, name, api_);
  member_ = member.place;
  if (member_ == Place::ignored) return;
  if (in == Place::part) open_.back().has_text = true;
  if (in == Place::root) {
    begin_member(member);
  } else {
    forget(member_);
  }
}

/// Whatever a value will turn out to be: it is not what an earlier one of that name was.
void RequestReader::forget(Place place) {
  switch (place) {
    case Place::model:
      return model_.clear();
    case Place::stream:
      return stream_.reset();
    case Place::include_usage:
      usage_requested_ = false;
      return;
    case Place::max_tokens:
      return sampling().max_tokens.reset();
    case Place::preferred_max_tokens:
      return sampling().preferred_max_tokens.reset();
    case Place::n:
      return sampling().n.reset();
    case Place::temperature:
      return sampling().temperature.reset();
    case Place::do_sample:
      sampling().do_sample = false;
      return;
    case Place::top_k:
      sampling().top_k = false;
      return;
    case Place::top_p:
      sampling().top_p = false;
      return;
    case Place::typical_p:
      sampling().typical_p = false;
      return;
    default:
      return;
  }
}

void RequestReader::object_begin() {
  Place place = value_place();
  switch (place) {
    case Place::message:
      ++source().messages;
      break;
    case Place::prompt_of_list:
      ++source().elements;
      place = Place::prompt;
      break;
    case Place::stored_context:
      stored_context_ = true;
      place = Place::ignored;
      break;
    case Place::part:
    case Place::prompt:
    case Place::tool_tree:
    case Place::text_tree:
    case Place::stream_options:
    case Place::options:
    case Place::sampling_params:
    case Place::root:
      break;
    default:
      place = Place::ignored;
  }
  open_.push_back({place, false, false});
}

void RequestReader::object_end(std::size_t n) {
  const Container closed = open_.back();
  open_.pop_back();
  if (closed.place == Place::tool_tree) tool_bytes_ += 2 + (n > 0 ? n - 1 : 0);
  if (closed.place == Place::part && !closed.has_text) ++source().images;
  if (open_.empty()) empty_ = n == 0;
}

void RequestReader::array_begin() {
  Place place = value_place();
  switch (place) {
    case Place::tools:
      place = Place::tool_tree;
      break;
    case Place::system:
      ++source().messages;
      place = Place::content;
      break;
    case Place::prompt_of_list:
      ++source().elements;
      break;
    case Place::messages:
    case Place::content:
    case Place::prompt:
    case Place::token_ids:
    case Place::images:
    case Place::tool_tree:
    case Place::text_tree:
      break;
    default:
      place = Place::ignored;
  }
  open_.push_back({place, true, false});
}

void RequestReader::array_end(std::size_t n) {
  const Place place = open_.back().place;
  open_.pop_back();
  if (place != Place::tool_tree) return;
  tool_bytes_ += 2 + (n > 0 ? n - 1 : 0);
  tools_ |= open_.size() == 1 && n > 0;
}

void RequestReader::string(std::string_view piece, bool last) {
  const Place place = value_place();
  switch (place) {
    case Place::model:
      model_.append(piece.substr(0, longest_model - model_.size()));
      return;
    case Place::stored_context:
      stored_context_ = true;
      return;
    case Place::images:
    case Place::image:
      if (last) ++source().images;
      return;
    case Place::messages:
      if (api_ != Api::openai_responses) return;
      [[fallthrough]];
    case Place::system:
      if (last) ++source().messages;
      break;
    case Place::prompt_of_list:
      if (last) ++source().elements;
      break;
    case Place::tool_tree:
      tool_bytes_ += piece.size() + (last ? 2 : 0);
      break;
    case Place::text:
    case Place::content:
    case Place::part:
    case Place::prompt:
    case Place::token_of_list:
    case Place::text_tree:
      break;
    default:
      return;
  }
  source().scripts.add(piece);
}

void RequestReader::number(double value, std::size_t bytes) {
  switch (value_place()) {
    case Place::max_tokens:
      sampling().max_tokens = as_count(value);
      break;
    case Place::preferred_max_tokens:
      sampling().preferred_max_tokens = as_count(value);
      break;
    case Place::n:
      sampling().n = as_count(value);
      break;
    case Place::temperature:
      sampling().temperature = value;
      break;
    case Place::top_k:
      sampling().top_k = value != 0;
      break;
    case Place::top_p:
      sampling().top_p = value < 1;
      break;
    case Place::typical_p:
      sampling().typical_p = value < 1;
      break;
    case Place::prompt_of_list:
      source().ids_among_elements = true;
      [[fallthrough]];
    case Place::token_of_list:
      ++source().token_ids;
      break;
    case Place::tool_tree:
      tool_bytes_ += bytes;
      break;
    default:
      break;
  }
}

void RequestReader::boolean(bool value) {
  switch (value_place()) {
    case Place::stream:
      stream_ = value;
      break;
    case Place::include_usage:
      usage_requested_ = value;
      break;
    case Place::do_sample:
      sampling().do_sample = value;
      break;
    case Place::tool_tree:
      tool_bytes_ += value ? 4 : 5;
      break;
    default:
      break;
  }
}

void RequestReader::null() {
  if (value_place() == Place::tool_tree) tool_bytes_ += 4;
}

}  // namespace weir::metrics::wire
