#include "metrics/wire/request/prefix_chain.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

namespace weir::metrics::wire {
namespace {

/// Returns the position of the rung of the ladder behind the rung at `position`. Positions count bytes, or token ids.
std::uint64_t rung_behind(std::uint64_t position, bool token_ids) {
  return position + (token_ids ? std::max<std::uint64_t>(16, position / 16 / 16 * 16)
                               : std::max<std::uint64_t>(256, position / 16));
}

/// An end of a message is kept if it lies so far behind the last anchor.
std::uint64_t end_distance(std::uint64_t position) { return std::max<std::uint64_t>(256, position / 64); }

}  // namespace

void PrefixChain::begin_chain(const void* member, Of of) {
  end_seed();
  ambiguous_ |= chain_member_ != nullptr && chain_member_ != member;
  chain_member_ = member;
  of_ = of;
  in_chain_ = true;
  member_begun_ = token_ids_ = mixed_ = false;
  labels_ = 0;
  chain_ = UniversalHash(key_);
  position_ = ends_ = 0;
  rung_ = rung_behind(0, false);
  kept_.clear();
}

void PrefixChain::begin(Begin what, std::string_view name, const void* member) {
  switch (what) {
    case Begin::seed:
    case Begin::unknown_seed:
      end_seed();
      in_chain_ = false;
      seed_.in_unknown = what == Begin::unknown_seed;
      seed_.hash = UniversalHash(key_);
      seed_.member = member;
      seed_.bytes = 0;
      return mark(name);
    case Begin::member:
      if (member_begun_ || name != "content") mark(name);
      member_begun_ = true;
      return;
    case Begin::message_data:
      end_message_data();
      in_message_data_ = true;
      return begin_data(name);
    case Begin::part:
      in_data_ = false;
      data_ = 0;
      part_state_ = Part::empty;
      return;
    case Begin::part_member:
      end_data();
      if (part_state_ == Part::empty && name == "text") {
        part_state_ = Part::text;
        return;
      }
      if (part_state_ == Part::empty) mark("(");
      part_state_ = Part::more;
      mark("+");
      return mark(name);
    case Begin::part_data:
      end_data();
      return begin_data(name);
  }
}

void PrefixChain::end(End what) {
  switch (what) {
    case End::text:
      // A prompt that is one text has no mark at its end, so that it is a beginning of longer ones.
      if (!in_chain_ || of_ == Of::messages) mark("");
      return;
    case End::message_data:
      return end_message_data();
    case End::part_of_text:
    case End::picture:
      return end_part(what == End::picture);
    case End::message:
      return end_message();
  }
}

void PrefixChain::end_seed() {
  if (std::exchange(seed_.in_unknown, false)) seed_.unknown += seed_.hash.value();
  if (seed_.member == nullptr) return;
  const SeedMember ended{seed_.member, seed_.hash.value(), seed_.bytes};
  forget(seed_.member);
  seed_.members.push_back(ended);
}

void PrefixChain::forget(const void* member) {
  if (member == nullptr) seed_.in_unknown = false;
  if (seed_.member == member) seed_.member = nullptr;
  const auto same = [member](const SeedMember& one) { return one.member == member; };
  seed_.members.erase(std::remove_if(seed_.members.begin(), seed_.members.end(), same), seed_.members.end());
}

void PrefixChain::mark(std::string_view name) {
  std::array<char, 40> bytes;
  const std::size_t size = std::min(name.size(), bytes.size() - 2);
  bytes[0] = '\xFF';
  std::copy_n(name.begin(), size, bytes.begin() + 1);  // A name that is too long for the parser has no data.
  bytes[size + 1] = '\xFE';
  hash().add({bytes.data(), size + 2});
}

void PrefixChain::keep() {
  if (kept_.empty()) kept_.reserve(64);
  kept_.push_back({chain_.value(), position_});
}

/// Rungs within something that moves the position at once have no anchor.
void PrefixChain::pass_rungs() {
  while (rung_ <= position_) rung_ = rung_behind(rung_, token_ids_);
}

void PrefixChain::move_on(std::uint64_t bytes) {
  if (!in_chain_) {
    seed_.bytes += bytes;
    return;
  }
  position_ += bytes;
  pass_rungs();
}

void PrefixChain::add(std::string_view text) {
  if (in_data_ || !in_chain_) {
    hash().add(text);
    if (!in_data_) seed_.bytes += text.size();
    return;
  }
  mixed_ |= token_ids_ && !text.empty();
  while (text.size() >= rung_ - position_) {
    const std::size_t size = rung_ - position_;
    chain_.add(text.substr(0, size));
    text.remove_prefix(size);
    position_ = rung_;
    keep();
    pass_rungs();
  }
  chain_.add(text);
  position_ += text.size();
}

/// Ids among text are counted by no common unit, so such a prompt has no anchors.
void PrefixChain::token_id(double id) {
  if (!in_chain_) return;
  if (!token_ids_) {
    mixed_ |= position_ > 0;
    token_ids_ = true;
    rung_ = rung_behind(0, true);
  }
  chain_.add(std::bit_cast<std::uint64_t>(id));
  if (++position_ < rung_) return;
  keep();
  pass_rungs();
}

void PrefixChain::add_structure(std::string_view name, std::size_t bytes) {
  mark(name);
  if (!in_data_ && !in_chain_) seed_.bytes += bytes;
}

void PrefixChain::number(std::string_view text, double value, std::size_t bytes) {
  if (text.empty()) {
    add_structure("#", bytes);
    hash().add(std::bit_cast<std::uint64_t>(value));
    hash().add(std::uint64_t{bytes});
  } else {
    add_structure("#.", text.size());
    hash().add(std::uint64_t{text.size()});
    hash().add(text);
  }
}

void PrefixChain::begin_data(std::string_view name) {
  in_data_ = true;
  part_ = UniversalHash(key_);
  mark(name);
}

void PrefixChain::end_message_data() {
  if (!std::exchange(in_message_data_, false)) return;
  in_data_ = false;
  labels_ += part_.value();
}

void PrefixChain::end_data() {
  if (in_data_) data_ += part_.value();
  in_data_ = false;
}

/// Parts lie within parts only in their members of text, so what is around a part has more than one text.
void PrefixChain::end_part(bool picture) {
  end_data();
  if (picture) end_picture();
  if (part_state_ == Part::more) mark(")");
  part_state_ = Part::more;
}

void PrefixChain::add_picture(std::string_view piece, bool last) {
  if (!in_data_) begin(Begin::part_data);
  add(piece);
  if (!last) return;
  end_data();
  end_picture();
}

void PrefixChain::end_picture() {
  mark("@");
  hash().add(data_);
  data_ = 0;
  mixed_ |= in_chain_ && token_ids_;
  move_on(picture_bytes);
}

void PrefixChain::add_label(std::string_view name, std::string_view piece, bool last) {
  std::array<char, 64> whole;
  if (!label_begun_ && last && name.size() + 1 + piece.size() <= whole.size()) {
    char* const end = std::copy(name.begin(), name.end(), whole.data());
    *end = '\xFF';
    std::copy(piece.begin(), piece.end(), end + 1);
    labels_ += universal_hash(key_, {whole.data(), name.size() + 1 + piece.size()});
    return;
  }
  if (!label_begun_) {
    label_begun_ = true;
    part_ = UniversalHash(key_);
    part_.add(name);
    part_.add("\xFF");
  }
  part_.add(piece);
  if (!last) return;
  labels_ += part_.value();
  label_begun_ = false;
}

void PrefixChain::end_message() {
  end_message_data();
  std::array<char, 3 + sizeof labels_> mark{'\xFF', 'm', '\xFE'};
  std::memcpy(mark.data() + 3, &labels_, sizeof labels_);
  hash().add({mark.data(), mark.size()});
  labels_ = 0;
  member_begun_ = false;
  if (!in_chain_) return;
  move_on(message_bytes);
  const Anchor end{chain_.value(), position_};
  ring_[ends_++ % last_ends] = end;
  if (position_ - (kept_.empty() ? 0 : kept_.back().position) < end_distance(position_)) return;
  if (kept_.empty()) kept_.reserve(64);
  kept_.push_back(end);
}

std::shared_ptr<const PromptPrefix> PrefixChain::take(const UniversalHash& more) {
  end_seed();
  if (ambiguous_ || mixed_ || position_ == 0) return nullptr;
  if (of_ == Of::text && (kept_.empty() || kept_.back().position < position_)) keep();

  UniversalHash seed = more;
  seed.add(token_ids_ ? "i" : of_ == Of::text ? "t" : "m");
  std::uint64_t sum = seed_.unknown, base = 0;
  for (const SeedMember& one : seed_.members) {
    sum += one.hash;
    base += one.bytes;
  }
  seed.add(sum);
  if (token_ids_) base = 0;
  const auto keyed = [seed = seed.value(), base](const Anchor& anchor) {
    const std::uint64_t key = UniversalHash::mixed(anchor.key ^ seed);
    return Anchor{key == 0 ? 1 : key, anchor.position + base};
  };

  auto prefix = std::make_shared<PromptPrefix>();
  prefix->token_ids = token_ids_;
  auto& anchors = prefix->anchors;
  const std::uint64_t in_ring = std::min<std::uint64_t>(ends_, last_ends);
  anchors.reserve(kept_.size() + in_ring + 1);
  if (base >= least_base) anchors.push_back(keyed({UniversalHash(key_).value(), 0}));
  std::array<Anchor, last_ends> last;
  for (std::uint64_t i = 0; i < in_ring; ++i) last[i] = ring_[(ends_ - in_ring + i) % last_ends];
  const auto first = static_cast<std::ptrdiff_t>(anchors.size());
  std::set_union(kept_.begin(), kept_.end(), last.begin(), last.begin() + static_cast<std::ptrdiff_t>(in_ring),
                 std::back_inserter(anchors), [](const Anchor& a, const Anchor& b) { return a.position < b.position; });
  std::transform(anchors.begin() + first, anchors.end(), anchors.begin() + first, keyed);
  return prefix;
}

std::vector<PrefixMark> marks_of(const PromptPrefix& prefix, const SipKey& secret) {
  std::vector<PrefixMark> marks;
  marks.reserve(prefix.anchors.size());
  for (const auto& anchor : prefix.anchors) {
    SipHash hash(secret);
    hash.add(anchor.key);
    marks.push_back({anchor.position, static_cast<std::uint32_t>(hash.value() >> 32)});
  }
  if (marks.size() <= most_marks) return marks;
  const auto last = marks.end() - last_marks;
  const auto chosen = marks.begin() + (most_marks - last_marks);
  std::nth_element(marks.begin(), chosen, last, [](const PrefixMark& a, const PrefixMark& b) { return a.key < b.key; });
  marks.erase(chosen, last);
  std::ranges::sort(marks);
  return marks;
}

}  // namespace weir::metrics::wire
