"""The arithmetic of secure aggregation: masked vectors whose sum a server can unmask, but none of them alone.

Real arithmetic, so that its price can be seen; no cryptography for production. Clients and server follow the protocol
(honest but curious); nothing checks that a masked vector is what an honest client would send.
"""

from asyncfl.secure_aggregation.field import ELEMENT_BYTES, LARGEST, PRIME
from asyncfl.secure_aggregation.lightsecagg_masks import lightsecagg_sum, part_length
from asyncfl.secure_aggregation.masked_sum import BelowThresholdError, MaskedSum, Member
from asyncfl.secure_aggregation.pairwise_masks import KEY_BYTES, pairwise_sum
from asyncfl.secure_aggregation.quantisation import Quantiser, discrete_gaussian
from asyncfl.secure_aggregation.shamir import SHARE_BYTES

__all__ = [
    "ELEMENT_BYTES",
    "KEY_BYTES",
    "LARGEST",
    "PRIME",
    "SHARE_BYTES",
    "BelowThresholdError",
    "MaskedSum",
    "Member",
]
__all__ += ["Quantiser", "discrete_gaussian", "lightsecagg_sum", "pairwise_sum", "part_length"]
