#include "metrics/wire/request/reader.hpp"

#include <algorithm>
#include <utility>

#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

namespace {

constexpr std::size_t longest_role = 32;

/// True if the member is in no table.
bool is_unknown(const RequestMember& member) { return member.key.empty(); }

/// True if some values of the member have the engine read nothing of the prompt from its cache, or cut it.
bool may_need_whole_prompt(RequestPlace place) {
  using enum RequestPlace;
  return place == whole_prompt || place == whole_prompt_if || place == cache_prompt || place == logprob_start;
}

}  // namespace

void RequestReader::begin(Api api, std::string_view path, const ConversationKey* conversation_key,
                          const UniversalKey* prefix_key) {
  if (prefix_key != nullptr && dialect_of(api).continues_prompt) prefix_.emplace(*prefix_key);
  opening_.set_key(conversation_key);
  api_ = api;
  route_ = dialect_of(api).route(path);
  members_ = &request_members(api);
}

const RequestMember* RequestReader::find(Place in, std::string_view key) {
  // Below these places every member leads to the same place.
  static constexpr RequestMember of_trees[] = {{Place::tool_tree, "", Place::tool_tree},
                                               {Place::text_tree, "", Place::text_tree},
                                               {Place::seed_tree, "", Place::seed_tree},
                                               {Place::data_tree, "", Place::data_tree}};
  static constexpr auto of_tree = [](Place tree) {
    return &of_trees[static_cast<std::size_t>(tree) - static_cast<std::size_t>(Place::tool_tree)];
  };
  naming_ = NamedBy::nothing;
  if (is_tree(in)) return of_tree(in);
  const RequestMember* const member = members_->find(in, key);
  if (member != nullptr && member->names != NamedBy::nothing) begin_name(member->names);
  if (member != nullptr || !prefix_ || key == "cache_control") return member;
  const bool rendered = in == Place::root || in == Place::message || in == Place::part;
  no_prefix_ |= rendered && key.empty();  // Its name is too long for the parser to tell it from others.
  switch (in) {
    case Place::root:
      prefix_->begin(PrefixChain::Begin::unknown_seed, key);
      return of_tree(Place::seed_tree);
    case Place::message:
      prefix_->begin(PrefixChain::Begin::message_data, key);
      return of_tree(Place::data_tree);
    case Place::part:
      prefix_->begin(PrefixChain::Begin::part_data, key);
      return of_tree(Place::data_tree);
    default:
      return nullptr;
  }
}

void RequestReader::begin_member(Place in, const RequestMember& member) {
  if (prefix_) begin_in_prefix(in, member);
  if (is_tree(in)) {
    if (in == Place::tool_tree) said_.tool_bytes += 3;  // Two quotes and a colon.
    return;
  }
  if (in == Place::part && member.place != Place::data_tree && member.place != Place::label) part_has_text_ = true;
  if (in == Place::root) {
    begin_outermost(member);
  } else {
    forget(member.place);
  }
}

void RequestReader::begin_in_prefix(Place in, const RequestMember& member) {
  if (is_tree(in)) return prefix_->add_structure(":", 3);
  if (is_unknown(member)) return;  // find() has begun it.
  if (member.place == Place::seed_tree || member.place == Place::tool_choice)
    return prefix_->begin(PrefixChain::Begin::seed, member.key, &member);
  if (in == Place::part && member.place != Place::data_tree)
    return prefix_->begin(PrefixChain::Begin::part_member, member.key);
  if (in != Place::message) return;
  prefix_->end(PrefixChain::End::message_data);
  if (member.place == Place::text || member.place == Place::content || member.place == Place::text_tree)
    prefix_->begin(PrefixChain::Begin::member, member.key);
}

/// A key of the outermost object may come again; its earlier value is then void.
void RequestReader::begin_outermost(const RequestMember& member) {
  switch (member.place) {
    case Place::options:
      sampling_ = {};
      if (const auto* const adapter = members_->find(Place::options, "adapter_id"); prefix_ && adapter != nullptr)
        prefix_->forget(adapter);
      return;
    case Place::sampling_params:
      nested_sampling_ = {};
      return;
    case Place::stream_options:
      said_.stream_options = true;
      said_.usage_requested = false;
      return;
    case Place::timings_per_token:
      said_.token_timings = true;
      return;
    case Place::tools:
      said_.tools = false;
      said_.tool_bytes = 0;
      break;
    case Place::messages:
    case Place::input:
    case Place::prompt:
    case Place::text:
    case Place::system:
    case Place::images:
    case Place::token_ids:
      break;
    default:
      return forget(member.place);
  }
  begin_source(member);
}

void RequestReader::begin_source(const RequestMember& member) {
  source().opening = opening_.value();
  from_ = member.from;
  source() = {};
  source().begun = true;
  const bool asks = from_ == From::prompt || from_ == From::text;
  const bool messages = member.place == Place::messages || member.place == Place::input;
  if ((asks && !messages) || from_ == From::input_ids) source().user_messages = 1;
  if (prefix_ && (asks || from_ == From::input_ids))
    prefix_->begin_chain(&member, messages ? PrefixChain::Of::messages : PrefixChain::Of::text);
  else if (prefix_)
    prefix_->begin(PrefixChain::Begin::seed, member.key, &member);
  opening_.begin(asks && messages                ? Opening::Of::messages
                 : asks || from_ == From::system ? Opening::Of::text
                                                 : Opening::Of::nothing);
}

void RequestReader::read(std::string_view text) {
  source().scripts.add(text);
  opening_.add(text);
  if (prefix_) prefix_->add(text);
}

/// The last of duplicate members counts.
void RequestReader::begin_name(NamedBy by) {
  naming_ = by;
  name_ = SipHash(name_key);
  names_[static_cast<std::size_t>(by)] = 0;
}

void RequestReader::read_name(std::string_view piece, bool last) {
  name_.add(piece);
  if (last && name_.bytes() > 0) names_[static_cast<std::size_t>(naming_)] = name_of_hash(name_.value());
  if (last) naming_ = NamedBy::nothing;
}

void RequestReader::read_key(Place in, std::string_view piece) {
  if (in == Place::tool_tree) said_.tool_bytes += piece.size();
  if (in == Place::tool_tree || in == Place::text_tree) return read(piece);
  if (prefix_) prefix_->add(piece);
}

/// A key may come again. Its earlier value is void, whatever the new one is.
void RequestReader::forget(Place place) {
  switch (place) {
    case Place::model:
      return model_.clear();
    case Place::role:
      return role_.clear();
    case Place::tool_choice:
      return tool_choice_.clear();
    case Place::stream:
      return stream_.reset();
    case Place::store:
      said_.stores = true;
      return;
    case Place::include_usage:
      said_.usage_requested = false;
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

/// The engine may read the object, list or string as one of the values with which the prompt comes from no cache.
RequestReader::Place RequestReader::ignore_prefix() {
  no_prefix_ = true;
  return Place::ignored;
}

RequestReader::Place RequestReader::begin_object(Place place) {
  naming_ = NamedBy::nothing;
  if (may_need_whole_prompt(place)) return ignore_prefix();
  switch (place) {
    case Place::message:
      ++source().messages;
      role_.clear();
      return place;
    case Place::prompt_of_list:
      ++source().elements;
      return Place::prompt;
    case Place::stored_context:
      said_.stored_context = true;
      return place;
    case Place::tool_choice:
      return begin_object(Place::seed_tree);
    case Place::seed_tree:
      if (!prefix_) return Place::ignored;
      [[fallthrough]];
    case Place::tool_tree:
    case Place::text_tree:
    case Place::data_tree:
      if (prefix_) prefix_->add_structure("{", 1);
      return place;
    case Place::part:
      part_has_text_ = false;
      if (prefix_) prefix_->begin(PrefixChain::Begin::part);
      return place;
    case Place::prompt:
    case Place::stream_options:
    case Place::options:
    case Place::sampling_params:
    case Place::root:
      return place;
    default:
      return Place::ignored;
  }
}

void RequestReader::end_object(Place place, std::size_t size) {
  if (is_tree(place)) {
    const std::size_t commas = size > 0 ? size - 1 : 0;
    if (place == Place::tool_tree) said_.tool_bytes += 2 + commas;
    if (prefix_) prefix_->add_structure("}", 1 + commas);
  }
  if (place == Place::part) {
    if (!part_has_text_) ++source().images;
    if (prefix_) prefix_->end(part_has_text_ ? PrefixChain::End::part_of_text : PrefixChain::End::picture);
    part_has_text_ = true;  // A part around this one has it in a member of text.
  }
  if (place == Place::message) {
    if (role_ == Opening::user) ++source().user_messages;
    opening_.end_message(role_);
    if (prefix_) prefix_->end(PrefixChain::End::message);
  }
  if (depth() == 0) said_.empty = size == 0;
}

RequestReader::Place RequestReader::begin_array(Place place) {
  naming_ = NamedBy::nothing;
  if (may_need_whole_prompt(place)) return ignore_prefix();
  switch (place) {
    case Place::seed_tree:
      if (!prefix_) return Place::ignored;
      [[fallthrough]];
    case Place::tool_tree:
    case Place::text_tree:
    case Place::data_tree:
      if (prefix_) prefix_->add_structure("[", 1);
      return place;
    case Place::tools:
      if (prefix_) prefix_->add_structure("[", 1);
      return Place::tool_tree;
    case Place::system:
      ++source().messages;
      return Place::part;
    case Place::prompt_of_list:
      ++source().elements;
      return Place::token_of_list;
    case Place::messages:
    case Place::input:
      return Place::message;
    case Place::content:
      return Place::part;
    case Place::prompt:
      return Place::prompt_of_list;
    case Place::token_ids:
      return Place::token_of_list;
    case Place::images:
      return Place::image;
    default:
      return Place::ignored;
  }
}

void RequestReader::end_array(Place place, std::size_t size) {
  if (!is_tree(place)) return;
  const std::size_t commas = size > 0 ? size - 1 : 0;
  if (prefix_) prefix_->add_structure("]", 1 + commas);
  if (place != Place::tool_tree) return;
  said_.tool_bytes += 2 + commas;
  said_.tools |= depth() == 1 && size > 0;
}

/// True for the places of strings that are read as text and nothing else.
bool RequestReader::is_text(Place place) {
  switch (place) {
    case Place::text:
    case Place::text_tree:
    case Place::content:
    case Place::system:
    case Place::part:
    case Place::input:
    case Place::prompt:
    case Place::prompt_of_list:
    case Place::token_of_list:
      return true;
    default:
      return false;
  }
}

void RequestReader::string(std::string_view piece, bool last) {
  if (naming_ != NamedBy::nothing) read_name(piece, last);
  const Place place = value_place();
  switch (place) {
    case Place::model:
      model_.append(piece.substr(0, longest_model - model_.size()));
      return;
    case Place::role:
      role_.append(piece.substr(0, longest_role - role_.size()));
      if (prefix_) prefix_->add_label(member().key, piece, last);
      return;
    case Place::stored_context:
      said_.stored_context = true;
      return;
    case Place::whole_prompt:
    case Place::whole_prompt_if:
    case Place::cache_prompt:
    case Place::logprob_start:
      no_prefix_ = true;
      return;
    case Place::images:
    case Place::image:
      if (last) ++source().images;
      if (prefix_) prefix_->add_picture(piece, last);
      return;
    case Place::tool_choice:
      return read_tool_choice(piece, last);
    case Place::label:
    case Place::seed_tree:
    case Place::data_tree:
      if (prefix_) read_in_prefix(place, piece, last);
      return;
    case Place::input:
    case Place::system:
      if (last) ++source().messages;
      break;
    case Place::prompt_of_list:
      if (last) ++source().elements;
      break;
    case Place::tool_tree:
      said_.tool_bytes += piece.size() + (last ? 2 : 0);
      break;
    default:
      if (!is_text(place)) return;
  }
  read(piece);
  if (!last) return;
  if (prefix_) end_in_prefix(place);
  if (place == Place::prompt_of_list) opening_.end_text();
  if (place != Place::input) return;
  ++source().user_messages;
  opening_.end_message(Opening::user);
}

void RequestReader::end_in_prefix(Place place) {
  if (is_tree(place)) return prefix_->add_structure("\"", 2);
  prefix_->end(PrefixChain::End::text);
  if (place != Place::input) return;
  prefix_->add_label("role", Opening::user, true);
  prefix_->end(PrefixChain::End::message);
}

void RequestReader::read_in_prefix(Place place, std::string_view piece, bool last) {
  if (place != Place::label) {
    prefix_->add(piece);
    if (last) prefix_->add_structure("\"", 2);
  } else if (open_place() == Place::part) {
    prefix_->add_id(piece);
    if (last) prefix_->end(PrefixChain::End::text);
  } else {
    prefix_->add_label(member().key, piece, last);
  }
}

/// Words other than `none` change nothing of the prompt.
void RequestReader::read_tool_choice(std::string_view piece, bool last) {
  constexpr std::string_view none = "none";
  tool_choice_.append(piece.substr(0, none.size() + 1 - std::min(tool_choice_.size(), none.size() + 1)));
  if (!prefix_ || !last) return;
  if (tool_choice_ == none)
    prefix_->add_id(none);
  else
    prefix_->forget(&member());
}

/// A longer number is known by its first digits alone, and they would not tell two prompts apart.
void RequestReader::number_in_prefix(std::string_view text, double value, std::size_t bytes) {
  no_prefix_ |= bytes > NumberText::longest;
  prefix_->number(text, value, bytes);
}

void RequestReader::number(double value, std::size_t bytes) {
  const auto text = std::exchange(number_text_, {});
  if (const auto count = naming_ == NamedBy::slot ? as_count(value) : std::nullopt)
    read_name(std::to_string(*count), true);
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
    case Place::whole_prompt:
    case Place::whole_prompt_if:
    case Place::cache_prompt:
      no_prefix_ = true;
      break;
    case Place::logprob_start:
      no_prefix_ |= !(value < 0);
      break;
    case Place::prompt_of_list:
      source().ids_among_elements = true;
      [[fallthrough]];
    case Place::token_of_list:
      ++source().token_ids;
      if (prefix_) prefix_->token_id(value);
      break;
    case Place::tool_tree:
      said_.tool_bytes += bytes;
      [[fallthrough]];
    case Place::text_tree:
    case Place::seed_tree:
    case Place::data_tree:
      if (prefix_) number_in_prefix(text, value, bytes);
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
    case Place::store:
      said_.stores = value;
      break;
    case Place::include_usage:
      said_.usage_requested = value;
      break;
    case Place::whole_prompt:
    case Place::logprob_start:
      no_prefix_ = true;
      break;
    case Place::whole_prompt_if:
      no_prefix_ |= value;
      break;
    case Place::cache_prompt:
      no_prefix_ |= !value;
      break;
    case Place::do_sample:
      sampling().do_sample = value;
      break;
    case Place::tool_tree:
      said_.tool_bytes += value ? 4 : 5;
      [[fallthrough]];
    case Place::text_tree:
    case Place::seed_tree:
    case Place::data_tree:
      if (prefix_) prefix_->add_structure(value ? "t" : "f", value ? 4 : 5);
      break;
    default:
      break;
  }
}

void RequestReader::null() {
  const Place place = value_place();
  if (place == Place::tool_tree) said_.tool_bytes += 4;
  if (!prefix_ || place == Place::ignored) return;
  if (is_tree(open_place()) || place == Place::data_tree || place == Place::text_tree) {
    prefix_->add_structure("n", 4);
  } else if (depth() == 1 || open_place() == Place::options) {
    // As if it were not there.
    prefix_->forget(is_unknown(member()) ? nullptr : &member());
  }
}

}  // namespace weir::metrics::wire
